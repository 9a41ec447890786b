_fourfold() {
    local kept kind value about
    local before=${COMP_LINE:0:COMP_POINT}
    local word=${before##*[[:space:]]}
    # What bash takes for the word begins after the last of these characters of it.
    local parted=${word%"${word##*["$COMP_WORDBREAKS"]}"}
    COMPREPLY=()
    {
        IFS= read -r kept
        while IFS=$'\t' read -r kind value about; do
            case $kind in
                file) compopt -o default ;;
                dir) compopt -o dirnames ;;
                plain)
                    value=$kept$value
                    [[ -n $parted ]] && value=${value#"$parted"}
                    [[ $word == [\"\']* ]] || printf -v value %q "$value"
                    COMPREPLY+=("$value")
                    ;;
            esac
        done
    } < <("$1" completion bash --line "$before" 2>/dev/null)
}

complete -o nosort -F _fourfold fourfold
