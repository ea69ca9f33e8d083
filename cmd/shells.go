package cmd

// Scripts that let shells complete the command line of a4s, by asking it. Those of
// urfave/cli know neither names of the cluster nor what words mean, and its ToFishCompletion
// tells commands by their last name, of which several are called list.

// bashScript needs nothing but bash 4.
const bashScript = `# bash completion of a4s: source <(a4s completion bash)
__start_a4s() {
	local words=() answer=() names=() meanings=()
	local word glue="" cur prefix directive line name width=0 i
	COMPREPLY=()
	# bash takes words apart at = and :, which flags and URLs have.
	for word in "${COMP_WORDS[@]:1:COMP_CWORD}"; do
		if [[ ${#words[@]} -gt 0 && ( -n $glue || $word =~ ^[=:]+$ ) ]]; then
			words[${#words[@]}-1]+=$word
		else
			words+=("$word")
		fi
		glue=""
		if [[ $word =~ ^[=:]+$ ]]; then glue=1; fi
	done
	mapfile -t answer < <("${COMP_WORDS[0]/#\~/$HOME}" __complete "${words[@]}" 2>/dev/null)
	if ((${#answer[@]} == 0)); then return; fi
	directive=${answer[${#answer[@]}-1]#:}
	unset "answer[${#answer[@]}-1]"

	cur=${words[${#words[@]}-1]}
	if [[ $cur == --*=* ]]; then cur=${cur#*=}; fi
	prefix=${cur%"${cur##*[=:]}"} # which is not a part of the last word of bash
	for line in "${answer[@]}"; do
		name=${line%%$'\t'*}
		if [[ $name != "$cur"* ]]; then continue; fi
		names+=("${name#"$prefix"}")
		if [[ $line == *$'\t'* ]]; then meanings+=("${line#*$'\t'}"); else meanings+=(""); fi
		if ((${#name} > width)); then width=${#name}; fi
	done
	for ((i = 0; i < ${#names[@]}; i++)); do
		name=${names[i]}
		# 37 and 42 put what is offered into the command line.
		if [[ ${#names[@]} -gt 1 && -n ${meanings[i]} && $COMP_TYPE != 37 && $COMP_TYPE != 42 ]]; then
			printf -v name '%-*s  (%s)' "$width" "$name" "${meanings[i]:0:${COLUMNS:-80}-width-5}"
		fi
		COMPREPLY+=("$name")
	done
	if ((directive & 2)); then compopt -o nospace 2>/dev/null; fi
	if [[ ${#COMPREPLY[@]} -eq 0 ]] && ((!(directive & 5))); then
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -f -- "${cur#"$prefix"}")
	fi
}
complete -F __start_a4s a4s
`

// zshScript works as a file of $fpath and with source.
const zshScript = `#compdef a4s
# zsh completion of a4s: source <(a4s completion zsh)
_a4s() {
	local -a answer offers options
	local line name directive
	answer=("${(@f)$(${~words[1]} __complete "${(@)words[2,CURRENT-1]}" "$PREFIX" 2>/dev/null)}")
	directive=${answer[-1]#:}
	answer[-1]=()
	if [[ $PREFIX == --*=* ]]; then compset -P '*='; fi
	for line in "${answer[@]}"; do
		name=${line%%$'\t'*}
		name=${name//:/\\:}
		if [[ $line == *$'\t'* ]]; then offers+=("$name:${line#*$'\t'}"); else offers+=("$name"); fi
	done
	if (( ${#offers} )); then
		if (( directive & 2 )); then options=(-S ''); fi
		_describe -V a4s offers "${options[@]}"
	elif (( ! (directive & 5) )); then
		_files
	fi
}
if [[ "$funcstack[1]" == _a4s ]]; then _a4s "$@"; else compdef _a4s a4s; fi
`

const fishScript = `# fish completion of a4s: a4s completion fish | source
function __a4s_complete
	set -l before (commandline -opc)
	set -l program $before[1]
	set -e before[1]
	set -l word (commandline -ct)
	test (count $word) -gt 0; or set word ''
	set -l answer ($program __complete $before "$word" 2>/dev/null)
	test (count $answer) -gt 0; or return
	set -l directive (string replace -- : '' $answer[-1])
	set -e answer[-1]
	set -l flag (string match -r -- '^--[^=]*=' "$word")
	if test (count $answer) -gt 0
		for line in $answer
			echo "$flag$line"
		end
	else if contains -- $directive 0 2
		__fish_complete_path "$word"
	end
end
complete -c a4s -e
complete -c a4s -f -a '(__a4s_complete)'
`
