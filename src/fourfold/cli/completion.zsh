#compdef fourfold

_fourfold() {
    local kept line kind value about
    local -a reply fields values described
    reply=("${(@f)$("$words[1]" completion zsh --line "${(j: :)words[1,CURRENT]}" 2>/dev/null)}")
    kept=$reply[1]
    [[ -n $kept ]] && compset -p $#kept
    for line in "${(@)reply[2,-1]}"; do
        fields=("${(@ps:\t:)line}")
        kind=$fields[1] value=$fields[2] about=$fields[3]
        case $kind in
            file) _files ;;
            dir) _files -/ ;;
            plain)
                if [[ -n $about ]]; then
                    described+=("${value//:/\\:}:$about")
                else
                    values+=("$value")
                fi
                ;;
        esac
    done
    # -V keeps the order: the best device is the first.
    [[ -n $described ]] && _describe -V fourfold described
    [[ -n $values ]] && compadd -V fourfold -a values
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _fourfold "$@"
else
    compdef _fourfold fourfold
fi
