"""The public client's room. Today it holds `documents/`, the bodies of REST calls, which the broker's REST server and
the typed admin client share. It refuses to know anything of the broker: it stands on base, layout, wire, runtime and
observe alone.
"""
