function __fourfold_complete
    set -l reply (fourfold completion fish --line (commandline -cp) 2>/dev/null)
    set -l kept $reply[1]
    for line in $reply[2..]
        set -l fields (string split \t -- $line)
        switch $fields[1]
            case file
                printf '%s\n' $kept(__fish_complete_path "$fields[2]")
            case dir
                printf '%s\n' $kept(__fish_complete_directories "$fields[2]")
            case plain
                printf '%s%s\t%s\n' "$kept" $fields[2..3]
        end
    end
end

complete --command fourfold --no-files --keep-order --arguments '(__fourfold_complete)'
