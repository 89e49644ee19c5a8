"""Completion scripts, one per shell, the same for every version. The scripts only pass words to `entry` and read its
answer; `entry` decides which words to offer. On any error, the scripts offer no completion and print nothing.
"""

from __future__ import annotations

from typing import Literal

Shell = Literal["bash", "zsh", "fish", "powershell"]

BASH = r"""# Completion of magnetar for bash: source <(magnetar completion bash)
_magnetar() {
    local how word line="${COMP_LINE:0:COMP_POINT}"
    COMPREPLY=()
    {
        IFS= read -r how
        while IFS= read -r word; do
            COMPREPLY+=("${word%%$'\t'*}")
        done
    } < <(_MAGNETAR_LINE="$line" _MAGNETAR_BREAKS="$COMP_WORDBREAKS" "$1" __complete bash 2>/dev/null)
    case "$how" in
        nospace) compopt -o nospace 2>/dev/null ;;
        files) compopt -o default 2>/dev/null ;;
    esac
    return 0
}
complete -F _magnetar magnetar
"""

ZSH = r"""#compdef magnetar
# Completion of magnetar for zsh: source <(magnetar completion zsh), or this as _magnetar in a folder of $fpath
_magnetar() {
    local -a answer words_told
    local line
    answer=("${(@f)$(${(Q)words[1]} __complete zsh "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
    if [[ "$answer[1]" == files ]]; then
        _files
        return
    fi
    for line in "${(@)answer[2,-1]}"; do
        [[ -n "$line" ]] || continue
        words_told+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
    done
    if [[ "$answer[1]" == nospace ]]; then
        _describe magnetar words_told -S ''
    else
        _describe magnetar words_told
    fi
}
if [[ "${zsh_eval_context[-1]}" == loadautofunc ]]; then
    _magnetar "$@"
else
    (( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
    compdef _magnetar magnetar
fi
"""

FISH = r"""# Completion of magnetar for fish: magnetar completion fish | source
function __magnetar_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l answer ($words[1] __complete fish $words[2..-1] "$current" 2>/dev/null)
    if test "$answer[1]" = files
        __fish_complete_path "$current"
    else
        printf '%s\n' $answer[2..-1]
    end
end
complete -c magnetar -f -a '(__magnetar_complete)'
"""

POWERSHELL = r"""# Completion of magnetar for PowerShell:
# magnetar completion powershell | Out-String | Invoke-Expression
Register-ArgumentCompleter -Native -CommandName magnetar -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $typed = $cursorPosition - $commandAst.Extent.StartOffset
    $env:_MAGNETAR_LINE = $commandAst.ToString().PadRight($typed).Substring(0, $typed)
    try {
        $answer = @(& $commandAst.CommandElements[0].Value __complete powershell 2>$null)
    } catch {
        return
    } finally {
        Remove-Item Env:\_MAGNETAR_LINE
    }
    if ($answer.Count -lt 2) { return }
    foreach ($told in $answer[1..($answer.Count - 1)]) {
        $word, $text = $told -split "`t", 2
        if (-not $text) { $text = $word }
        [System.Management.Automation.CompletionResult]::new($word, $word, 'ParameterValue', $text)
    }
}
"""

SCRIPTS: dict[Shell, str] = {"bash": BASH, "zsh": ZSH, "fish": FISH, "powershell": POWERSHELL}
