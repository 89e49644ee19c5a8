"""The broker and later its rivals, side by side with their ceilings, as ratios in one run. Imported by nobody."""
