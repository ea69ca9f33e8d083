#!/bin/sh
# Installs a4s and its service (systemd or OpenRC) from a release or a local
# directory. The same command run again updates it and keeps the options.
#
#   curl -sfL https://github.com/a4s-io/a4s/releases/latest/download/install.sh | sh -
#   curl -sfL ... | A4S_URL=https://192.0.2.10:6443 A4S_TOKEN=K10... sh -
#   curl -sfL ... | sh -s - server --disable-agent
#
# Arguments (after those in INSTALL_A4S_EXEC) are a4s' own: `server` or `agent`
# and its flags. Without a command it is an agent if A4S_URL is set, otherwise
# a server. A4S_* and *_PROXY variables go into the environment file of the
# service, mode 0600; so do the values of --token and --agent-token.
#
# A run without arguments keeps those of before; arguments replace all of them.
# A variable replaces the one of before, an empty one removes it. Options marked
# (kept) are remembered as well; one given empty returns to its default.
#
#   INSTALL_A4S_EXEC            arguments, in one string with quotes as in a shell
#   INSTALL_A4S_VERSION         version to install; otherwise the latest
#   INSTALL_A4S_NAME            the service is a4s-NAME, not a4s or a4s-agent
#   INSTALL_A4S_TYPE            Type= of the systemd unit: notify (kept)
#   INSTALL_A4S_BIN_DIR         for programs: /usr/local/bin (kept)
#   INSTALL_A4S_SYSTEMD_DIR     for the unit: /etc/systemd/system (kept)
#   INSTALL_A4S_OPENRC_DIR      for the OpenRC script: /etc/init.d (kept)
#   INSTALL_A4S_CONFIG_DIR      for what this script remembers: /etc/a4s
#   INSTALL_A4S_SYMLINK         kubectl, ctr and crictl: unset links them where the PATH
#                               has none, `skip` never, `force` always (kept)
#   INSTALL_A4S_DOWNLOAD_URL    a mirror of the releases page (kept)
#   INSTALL_A4S_PUBLIC_KEY      PEM file: also check FILE.sig (kept)
#   INSTALL_A4S_ARTIFACT_PATH   a local directory instead of a download: a4s-linux-ARCH
#                               or a4s-linux-ARCH.zst, each with .sha256, and archives
#                               of images (.tar, .tar.gz, .tar.zst) for the node
#   INSTALL_A4S_SKIP_DOWNLOAD   true: use the program that is in BIN_DIR
#   INSTALL_A4S_SKIP_START      true: do not start or restart the service
#   INSTALL_A4S_SKIP_ENABLE     true: do not start it now, nor with the machine
#   INSTALL_A4S_FORCE_RESTART   true: restart it even if nothing changed
#   INSTALL_A4S_ROLLBACK        true: exchange the program with the one before it
#   INSTALL_A4S_DRY_RUN         true: say what would be done and change nothing
set -eu
umask 022

info() { printf '%s\n' "$*"; }
warn() { printf 'install.sh: warning: %s\n' "$*" >&2; }
fail() {
	printf 'install.sh: %s\n' "$*" >&2
	exit 1
}
have() { command -v "$1" >/dev/null 2>&1; }
nl='
'

# Files that are staged beside their targets, so that a full disk shows before
# anything is replaced, and directories made for them.
staged='' made='' work=''
skip_download=false skip_start=false skip_enable=false force_restart=false rollback=false dry_run=false
finish() {
	status=$?
	trap - EXIT
	if [ -n "$staged" ]; then
		printf '%s' "$staged" | while IFS= read -r f; do rm -f "${f%%	*}"; done
	fi
	if [ -n "$made" ]; then
		printf '%s' "$made" | while IFS= read -r d; do rmdir "$d" 2>/dev/null || true; done
	fi
	[ -z "$work" ] || rm -rf "$work"
	exit "$status"
}

is_true() { # NAME VALUE
	case $2 in
	true) return 0 ;;
	false | '') return 1 ;;
	*) fail "$1=$2: it is true or false" ;;
	esac
}

check_system() {
	[ "$(id -u)" = 0 ] || fail "run it as root (curl ... | sudo sh -): it writes to /usr/local/bin and /etc, and starts a service"
	[ "$(uname -s)" = Linux ] || fail "a4s runs on Linux, this is $(uname -s)"
	case $(uname -m) in
	x86_64 | amd64) artifact=a4s-linux-amd64 ;;
	aarch64 | arm64) artifact=a4s-linux-arm64 ;;
	*) fail "there is no a4s for $(uname -m), only for amd64 (x86_64) and arm64 (aarch64)" ;;
	esac
	if have systemctl; then
		init=systemd
	elif have openrc-run && have rc-service && have rc-update; then
		init=openrc
	else
		fail "neither systemd (systemctl) nor OpenRC (openrc-run) is here to run a service; see docs/install/install.md for what to start"
	fi
	have sha256sum || fail "sha256sum is missing: install coreutils"
}

# lines prints words one a line, with quotes and backslashes as in a shell but
# without expanding anything.
lines() {
	[ -n "$(printf %s "$1" | tr -d ' \t\n')" ] || return 0
	printf '%s\n' "$1" | xargs printf '%s\n' 2>/dev/null || fail "INSTALL_A4S_EXEC: the quotes do not match in: $1"
}

one_line() { # WHAT VALUE
	case $2 in
	*"$nl"*) fail "$1 holds a line break, which a service file cannot" ;;
	esac
}

# remembered prints the lines of the state file that begin with KEY=.
remembered() {
	if [ -f "$state" ]; then sed -n "s/^$1=//p" "$state"; fi
}

# option prints the option NAME: that of the environment, or else that of
# before, or else DEFAULT.
option() { # NAME DEFAULT
	if eval "[ -n \"\${INSTALL_A4S_$1+x}\" ]"; then
		eval "v=\$INSTALL_A4S_$1"
	else
		v=$(remembered "$1")
	fi
	one_line "INSTALL_A4S_$1" "$v"
	printf %s "${v:-$2}"
}

# choose_service finds which service of this machine this run is about, and
# whether it is a server or an agent.
choose_service() { # first argument
	command=
	case ${1-} in
	server | agent) command=$1 ;;
	'' | -*) ;;
	*) fail "a4s $1 is not a service: the first argument is server, agent or a flag" ;;
	esac
	if [ -n "${INSTALL_A4S_NAME-}" ]; then
		case $INSTALL_A4S_NAME in
		*[!A-Za-z0-9_.-]* | .*) fail "INSTALL_A4S_NAME=$INSTALL_A4S_NAME: only letters, digits, dots, dashes and underscores" ;;
		esac
		service=a4s-$INSTALL_A4S_NAME
	else
		set --
		for f in "$states"/*; do
			[ ! -f "$f" ] || set -- "$@" "${f##*/}"
		done
		[ $# -le 1 ] || fail "several services are installed here: say with INSTALL_A4S_NAME which one (without a4s-): $*"
		service=${1-}
	fi
	state=$states/$service
	before=
	if [ -n "$service" ]; then before=$(remembered command); fi
	if [ -n "$before" ] && [ -n "$command" ] && [ "$command" != "$before" ]; then
		fail "$service is installed here as '$before'; to make it '$command', first run $service-uninstall.sh, or name another service with INSTALL_A4S_NAME"
	fi
	[ -n "$command" ] || command=$before
	if [ -z "$command" ]; then
		command=server
		[ -z "${A4S_URL-}" ] || command=agent
	fi
	if [ -z "$service" ]; then
		service=a4s
		[ "$command" = server ] || service=a4s-agent
	fi
	state=$states/$service
}

# place_secrets moves tokens out of the arguments, which every user of the
# machine can read, and leaves the rest in args, one a line.
place_secrets() {
	args='' pending=''
	[ -z "$1" ] || while IFS= read -r a; do
		if [ -n "$pending" ]; then
			eval "$pending=\$a"
			pending=
			continue
		fi
		case $a in
		--token | -t) pending=A4S_TOKEN ;;
		--agent-token) pending=A4S_AGENT_TOKEN ;;
		--token=*) A4S_TOKEN=${a#*=} ;;
		--agent-token=*) A4S_AGENT_TOKEN=${a#*=} ;;
		*) args=$args$a$nl ;;
		esac
	done <<ARGS
$1
ARGS
	[ -z "$pending" ] || fail "the last flag has no value"
	[ -z "${A4S_TOKEN+x}" ] || export A4S_TOKEN
	[ -z "${A4S_AGENT_TOKEN+x}" ] || export A4S_AGENT_TOKEN
}

# flag prints the value of a flag in args: flag --data-dir -d
flag() {
	printf %s "$args" | awk -v long="$1" -v short="$2" '
		want { v = $0; want = 0; next }
		$0 == long || $0 == short { want = 1; next }
		index($0, long "=") == 1 { v = substr($0, length(long) + 2) }
		END { print v }'
}

# quote_unit and quote_shell print one word as systemd and the shell read it.
quote_unit() {
	case $1 in
	'' | *[!A-Za-z0-9_@/:=.,+-]*) printf '"%s"' "$(printf %s "$1" | sed 's/[\\"]/\\&/g; s/\$/$$/g; s/%/%%/g')" ;;
	*) printf %s "$1" ;;
	esac
}
quote_shell() { printf "'%s'" "$(printf %s "$1" | sed "s/'/'\\\\''/g")"; }
quoted_args() { # HOW
	[ -z "$args" ] || printf %s "$args" | while IFS= read -r a; do
		printf ' '
		"$1" "$a"
	done
}

# environment prints the new environment file: what is set now, and of the old
# file every line that is not replaced. systemd and shells read it alike.
environment() {
	# shellcheck disable=SC2016 # awk's
	names=$(awk 'BEGIN { for (n in ENVIRON) if (n ~ /^A4S_[A-Z0-9_]+$/ && n != "A4S_TENANT" || n ~ /^([A-Z]+_PROXY|[a-z]+_proxy)$/) print n }' </dev/null | sort)
	done=
	if [ -f "$env_file" ]; then
		while IFS= read -r line || [ -n "$line" ]; do
			case "$nl$names$nl" in
			*"$nl${line%%=*}$nl"*)
				env_line "${line%%=*}"
				done="$done ${line%%=*} "
				;;
			*) printf '%s\n' "$line" ;;
			esac
		done <"$env_file"
	fi
	for n in $names; do
		case $done in
		*" $n "*) ;;
		*) env_line "$n" ;;
		esac
	done
}

env_line() { # NAME
	eval "v=\$$1"
	one_line "$1" "$v"
	# shellcheck disable=SC2016 # characters, not an expansion
	[ -z "$v" ] || printf '%s="%s"\n' "$1" "$(printf %s "$v" | sed 's/[\\"$`]/\\&/g')"
}

env_value() { # NAME: its value in the new environment file
	sed -n "s/^$1=\"\\(.*\\)\"\$/\\1/p" "$work/env" | sed 's/\\\(.\)/\1/g'
}

unit() {
	cat <<UNIT
[Unit]
Description=a4s
After=network-online.target
Wants=network-online.target

[Service]
Type=$type
EnvironmentFile=-$env_file
ExecStart=$(quote_unit "$bin_dir/a4s") $command$(quoted_args quote_unit)
# Pods outlive a restart of the service.
KillMode=process
Delegate=yes
LimitNOFILE=1048576
TasksMax=infinity
TimeoutStartSec=0
Restart=always
RestartSec=5

[Install]
WantedBy=multi-user.target
UNIT
}

openrc_script() {
	# Twice quoted: openrc-run evaluates command_args once more.
	cat <<SCRIPT
#!/sbin/openrc-run
name=$service
description="a4s"
supervisor=supervise-daemon
command=$(quote_shell "$bin_dir/a4s")
command_args=$(quote_shell "$command$(quoted_args quote_shell)")
output_log=/var/log/$service.log
error_log=/var/log/$service.log
pidfile=/run/$service.pid
respawn_delay=5
respawn_max=0
rc_ulimit="-n 1048576"

depend() {
	after network-online
	want cgroups
}

set -o allexport
[ ! -f $(quote_shell "$env_file") ] || . $(quote_shell "$env_file")
set +o allexport
SCRIPT
}

remember() {
	cat <<STATE
# What install.sh keeps for the next run. Remove it only with $service-uninstall.sh.
command=$command
init=$init
service_file=$service_file
env_file=$env_file
data_dir=$data_dir
config=$config
STATE
	for o in TYPE BIN_DIR SYSTEMD_DIR OPENRC_DIR SYMLINK DOWNLOAD_URL PUBLIC_KEY; do
		v=$(option $o '')
		[ -z "$v" ] || printf '%s=%s\n' $o "$v"
	done
	printf 'links=%s\n' "$links"
	[ -z "$args" ] || printf %s "$args" | sed 's/^/arg=/'
}

# shared_code is in this script and in those that it makes.
shared_code() {
	cat <<'CODE'
data_dir_of() { # CONFIG: the data directory when no flag or variable names one
	d=
	for f in "$1" "$1".d/*.yaml "$1".d/*.yml; do
		[ ! -f "$f" ] || d=$(sed -n "s/^data-dir:[[:space:]]*//p" "$f" | sed "s/[[:space:]]#.*//; s/[[:space:]]*\$//; s/^[\"']//; s/[\"']\$//" | tail -n 1 | grep . || echo "$d")
	done
	printf %s "${d:-/var/lib/a4s}"
}
CODE
}
eval "$(shared_code)"

script_head() {
	printf '#!/bin/sh\n# Made by install.sh.\nset -eu\nbin_dir=%s\nconfig_dir=%s\nservice=%s\n' \
		"$(quote_shell "$bin_dir")" "$(quote_shell "$config_dir")" "$1"
	shared_code
	cat <<'CODE'
remembered() { sed -n "s/^$2=//p" "$config_dir/install/$1"; }
fail() {
	echo "${0##*/}: $*" >&2
	exit 1
}
[ "$(id -u)" = 0 ] || fail "run it as root"
CODE
}

killall_script() {
	script_head ''
	cat <<'CODE'
# Stops the services and their pods and undoes what they changed on the machine;
# data stays. With a name, only that service.
end() { # SERVICE
	case $(remembered "$1" init) in
	systemd) ! systemctl cat "$1" >/dev/null 2>&1 || systemctl stop "$1" ;;
	openrc) ! rc-service --exists "$1" || rc-service "$1" stop ;;
	esac
	data_dir=$(remembered "$1" data_dir) config=$(remembered "$1" config)
	set --
	[ -z "$config" ] || set -- "$@" --config "$config"
	[ -z "$data_dir" ] || set -- "$@" --data-dir "$data_dir"
	"$bin_dir/a4s" killall "$@"
}
main() {
	if [ $# = 0 ]; then
		for f in "$config_dir"/install/*; do
			[ ! -f "$f" ] || set -- "$@" "${f##*/}"
		done
	fi
	for s in "$@"; do
		[ -f "$config_dir/install/$s" ] || fail "there is no service $s"
		end "$s"
	done
}
main "$@"
CODE
}

uninstall_script() {
	script_head "$service"
	cat <<'CODE'
# Ends the service and its pods and removes everything of it, data included.
remove_data() { # DIRECTORY
	[ -d "$1" ] || return 0
	d=$(cd "$1" && pwd -P)
	case $d in
	/ | /bin | /boot | /dev | /etc | /home | /lib | /opt | /proc | /root | /run | /sbin | /srv | /sys | /tmp | /usr | /usr/* | /var | /var/lib | /var/log | /mnt | /media)
		fail "the data directory $d is one of the system: remove what a4s left in it by hand"
		;;
	esac
	inside=$(awk -v d="$d/" 'index($2, d) == 1 { print $2 }' /proc/mounts)
	[ -z "$inside" ] || fail "something is still mounted in the data directory, nothing in it was removed: $inside"
	if awk -v d="$d" '$2 == d { found = 1 } END { exit !found }' /proc/mounts; then
		find "$d" -xdev -mindepth 1 -delete
	else
		rm -rf "$d"
	fi
}
main() {
	state=$config_dir/install/$service
	[ -f "$state" ] || fail "$service is not installed ($state is missing)"
	init=$(remembered "$service" init) file=$(remembered "$service" service_file) env=$(remembered "$service" env_file)
	data_dir=$(remembered "$service" data_dir) config=$(remembered "$service" config)
	links=$(remembered "$service" links)
	[ -n "$data_dir" ] || data_dir=$(data_dir_of "${config:-$config_dir/config.yaml}")
	"$bin_dir/a4s-killall.sh" "$service"
	remove_data "$data_dir"
	case $init in
	systemd)
		systemctl disable "$service" || true
		rm -rf "$file" "$file.d" "$env"
		systemctl daemon-reload || true
		systemctl reset-failed "$service" 2>/dev/null || true
		;;
	openrc)
		rc-update del "$service" default || true
		rm -f "$file" "$env" "/var/log/$service.log"
		;;
	esac
	rm -f "$state"
	if ! rmdir "$config_dir/install" 2>/dev/null; then
		rm -f "$bin_dir/$service-uninstall.sh"
		echo "Other services of a4s remain, so the program and $config_dir do: $(ls "$config_dir/install")"
		return
	fi
	for c in $links; do
		if [ "$(readlink "$bin_dir/$c")" = a4s ]; then rm -f "$bin_dir/$c"; fi
	done
	rm -rf "$config_dir"
	rm -f "$bin_dir/a4s" "$bin_dir/a4s.old" "$bin_dir/a4s-killall.sh" "$bin_dir/$service-uninstall.sh"
	echo "$service is uninstalled."
}
main "$@"
CODE
}

ensure_dir() {
	[ ! -d "$1" ] || return 0
	ensure_dir "$(dirname "$1")"
	mkdir "$1" 2>/dev/null || cannot_write "$1"
	made=$1$nl$made
}

cannot_write() {
	d=$1
	while [ ! -d "$d" ]; do d=$(dirname "$d"); done
	fail "cannot write $1: is the disk full or read-only? ($(df -Pk "$d" | awk 'NR == 2 { print $4 " KiB free on " $6 }')). Nothing was changed."
}

# stage sets tmp to where the new content of TARGET is to be written.
stage() { # TARGET
	ensure_dir "$(dirname "$1")"
	tmp=$(dirname "$1")/.$(basename "$1").new.$$
	staged=$staged$tmp"	"$1$nl
}

put() { # MODE SOURCE TARGET
	if cmp -s "$2" "$3"; then
		$dry_run || chmod "$1" "$3"
		return
	fi
	changed="$changed $3"
	if $dry_run; then
		info "would write $3"
		return
	fi
	stage "$3"
	{ (umask 077 && cat "$2" >"$tmp") && chmod "$1" "$tmp"; } 2>/dev/null || cannot_write "$3"
}

commit() {
	while IFS='	' read -r from to; do
		[ -z "$from" ] || mv -f "$from" "$to"
	done <<STAGED
$staged
STAGED
	staged='' made=''
}

fetch() { # URL TARGET
	rc=0
	if have curl; then
		curl -sSfL --retry 2 -o "$2" "$1" || rc=$?
		[ $rc != 23 ] || cannot_write "$2"
	elif have wget; then
		wget -qO "$2" "$1" || rc=$?
	else
		fail "neither curl nor wget is here to download with; INSTALL_A4S_ARTIFACT_PATH installs from a local directory"
	fi
	return $rc
}

obtain() { # NAME TARGET
	if [ -n "$artifacts" ]; then
		[ -f "$artifacts/$1" ] || return 1
		cat "$artifacts/$1" >"$2" 2>/dev/null || cannot_write "$2"
	else
		fetch "$base/$1" "$2"
	fi
}

from() { printf %s "${artifacts:-$base}/$1"; }
sum_of() { sha256sum <"$1" | cut -c 1-64; }
sum_in() { # FILE: the checksum that a .sha256 file holds
	s=$(head -n 1 "$1" | cut -c 1-64)
	case $s in
	*[!0-9a-f]*) s= ;;
	esac
	[ ${#s} = 64 ] || fail "$2 is not a file of sha256sum"
	printf %s "$s"
}

verify() { # FILE NAME WANTED
	got=$(sum_of "$1")
	[ "$got" = "$3" ] || fail "the checksum of $(from "$2") does not match: it is $got and should be $3. Nothing was changed."
	[ -n "$public_key" ] || return 0
	obtain "$2.sig" "$work/sig" || fail "INSTALL_A4S_PUBLIC_KEY is set and $(from "$2.sig") cannot be read"
	if have openssl; then
		openssl base64 -d -A -in "$work/sig" -out "$work/sig.der" &&
			openssl dgst -sha256 -verify "$public_key" -signature "$work/sig.der" "$1" >/dev/null 2>&1
	elif have cosign; then
		cosign verify-blob --key "$public_key" --signature "$work/sig" --insecure-ignore-tlog=true "$1" >/dev/null 2>&1
	else
		fail "INSTALL_A4S_PUBLIC_KEY is set, and neither openssl nor cosign is here to check the signature with"
	fi || fail "the signature of $(from "$2") is not one of $public_key. Nothing was changed."
	info "The signature of $2 is good."
}

# get_program stages the program, unless the one in place is the wanted one.
get_program() {
	program=$bin_dir/a4s
	if $rollback; then
		[ -x "$program.old" ] || fail "there is nothing to go back to: $program.old is missing"
		changed="$changed $program"
		if $dry_run; then
			info "would exchange $program and $program.old"
			return
		fi
		keep_old
		stage "$program"
		ln "$program.old" "$tmp" 2>/dev/null || cp -p "$program.old" "$tmp" || cannot_write "$program"
		return
	fi
	if $skip_download; then
		[ -x "$program" ] || fail "INSTALL_A4S_SKIP_DOWNLOAD=true, and $program is missing or not executable"
		return
	fi
	obtain "$artifact.sha256" "$work/sum" || fail "cannot read $(from "$artifact.sha256")"
	want=$(sum_in "$work/sum" "$(from "$artifact.sha256")")
	if [ -f "$program" ] && [ "$(sum_of "$program")" = "$want" ]; then
		info "$program is already the wanted one."
		return
	fi
	changed="$changed $program"
	if $dry_run; then
		info "would install $(from "$artifact") as $program"
		return
	fi
	[ ! -f "$program" ] || keep_old
	stage "$program"
	new=$tmp
	info "Getting $(from "$artifact")"
	if have zstd && [ ! -f "$artifacts/$artifact" ] && obtain "$artifact.zst.sha256" "$work/zst.sum" 2>/dev/null; then
		packed=$bin_dir/.a4s.zst.new.$$
		staged=$staged$packed"	"$nl
		obtain "$artifact.zst" "$packed" || fail "cannot read $(from "$artifact.zst")"
		verify "$packed" "$artifact.zst" "$(sum_in "$work/zst.sum" "$(from "$artifact.zst.sha256")")"
		zstd -q -d -f -o "$new" "$packed" || cannot_write "$program"
		rm -f "$packed"
		staged=${staged%"$packed	$nl"}
		[ "$(sum_of "$new")" = "$want" ] || fail "$(from "$artifact.zst") does not hold the program of $artifact.sha256. Nothing was changed."
	else
		obtain "$artifact" "$new" || fail "cannot read $(from "$artifact")"
		verify "$new" "$artifact" "$want"
	fi
	chmod 755 "$new"
	version=$("$new" --version 2>&1) || fail "the new program does not run on this machine, nothing was changed: $version"
	info "Installing $(printf '%s\n' "$version" | head -n 1)"
}

# keep_old stages the program in place as the one to go back to.
keep_old() {
	stage "$program.old"
	ln "$program" "$tmp" 2>/dev/null || cp -p "$program" "$tmp" || cannot_write "$program.old"
}

put_images() {
	[ -n "$artifacts" ] || return 0
	images=${data_dir:-$(data_dir_of "${config:-$config_dir/config.yaml}")}/agent/images
	for f in "$artifacts"/*.tar "$artifacts"/*.tar.gz "$artifacts"/*.tgz "$artifacts"/*.tar.zst "$artifacts"/*.tzst; do
		[ -f "$f" ] || continue
		case ${f##*/} in a4s-airgap-*) continue ;; esac # it holds images, and is none
		if [ -f "$f.sha256" ]; then
			[ "$(sum_of "$f")" = "$(sum_in "$f.sha256" "$f.sha256")" ] || fail "the checksum of $f does not match. Nothing was changed."
		fi
		put 644 "$f" "$images/${f##*/}"
	done
}

# plan_links decides which commands become links to a4s, which has all of them.
plan_links() {
	links='' new_links=''
	for c in kubectl ctr crictl; do
		if [ "$(readlink "$bin_dir/$c" 2>/dev/null)" = a4s ]; then
			links="$links $c"
			continue
		fi
		case $link_mode in
		skip) continue ;;
		force) ;;
		'') if have "$c" || [ -e "$bin_dir/$c" ]; then
			info "There is a $c already, so none is linked."
			continue
		fi ;;
		esac
		links="$links $c" new_links="$new_links $c"
	done
	links=${links# }
}

start_service() {
	restart=$force_restart
	for f in "$bin_dir/a4s" "$service_file" "$env_file"; do
		case " $changed " in
		*" $f "*) restart=true ;;
		esac
	done
	case $init in
	systemd)
		systemctl daemon-reload || $skip_start || fail "systemctl daemon-reload failed"
		$skip_enable || systemctl enable "$service"
		$skip_start || $restart || systemctl is-active --quiet "$service" || restart=true
		start="systemctl restart $service" log="journalctl -u $service"
		;;
	openrc)
		$skip_enable || rc-update add "$service" default
		$skip_start || $restart || rc-service -q "$service" status || restart=true
		start="rc-service $service restart" log="/var/log/$service.log"
		;;
	esac
	if $skip_start; then
		info "Not started, as asked. To start it: $start"
		return
	fi
	if ! $restart; then
		info "Nothing changed, $service goes on running."
		return
	fi
	info "Starting $service"
	back=
	[ ! -e "$bin_dir/a4s.old" ] || back=" The program before this one is kept: INSTALL_A4S_ROLLBACK=true takes it back."
	$start || fail "$service is installed and does not start; see $log.$back"
}

selinux_note() {
	if have getenforce && [ "$(getenforce)" = Enforcing ]; then
		! have restorecon || restorecon "$bin_dir/a4s" || true
		warn "SELinux is enforcing and a4s brings no policy: containers are not confined by it, and a denial shows in 'ausearch -m avc'"
	fi
}

main() {
	check_system
	for o in SKIP_DOWNLOAD SKIP_START SKIP_ENABLE FORCE_RESTART ROLLBACK DRY_RUN; do
		eval "v=\${INSTALL_A4S_$o-}"
		b=false
		if is_true "INSTALL_A4S_$o" "$v"; then b=true; fi
		eval "$(echo $o | tr '[:upper:]' '[:lower:]')=$b"
	done
	if $skip_enable; then skip_start=true; fi
	config_dir=${INSTALL_A4S_CONFIG_DIR:-/etc/a4s}
	states=$config_dir/install changed=

	words=$(lines "${INSTALL_A4S_EXEC-}")
	for a in "$@"; do
		one_line "an argument" "$a"
		words=$words${words:+$nl}$a
	done
	choose_service "${words%%"$nl"*}"
	if [ -n "$words" ]; then
		words=$(printf '%s\n' "$words" | sed "1{/^$command\$/d;}")
	else
		words=$(remembered arg)
	fi
	place_secrets "$words"

	type=$(option TYPE notify) bin_dir=$(option BIN_DIR /usr/local/bin)
	public_key=$(option PUBLIC_KEY '') link_mode=$(option SYMLINK '')
	case $link_mode in
	'' | skip | force) ;;
	*) fail "INSTALL_A4S_SYMLINK=$link_mode: it is skip, force or unset" ;;
	esac
	if [ $init = systemd ]; then
		service_file=$(option SYSTEMD_DIR /etc/systemd/system)/$service.service
		env_file=$service_file.env
		if ! $skip_start && [ "$(systemctl is-system-running 2>/dev/null || true)" = offline ]; then
			fail "systemd does not run here (a container?): INSTALL_A4S_SKIP_START=true installs without starting"
		fi
	else
		service_file=$(option OPENRC_DIR /etc/init.d)/$service
		env_file=$config_dir/$service.env
	fi
	if [ -f "$state" ]; then
		old_bin=$(remembered BIN_DIR)
		if [ "${old_bin:-/usr/local/bin}" != "$bin_dir" ] || [ "$(remembered service_file)" != "$service_file" ]; then
			fail "$service is installed in ${old_bin:-/usr/local/bin} and as $(remembered service_file): to move it, uninstall it first"
		fi
	elif [ -e "$service_file" ]; then
		fail "$service_file is not by this script: move it away, and give its options as arguments"
	fi
	[ -z "$public_key" ] || [ -f "$public_key" ] || fail "INSTALL_A4S_PUBLIC_KEY=$public_key: there is no such file"
	artifacts=${INSTALL_A4S_ARTIFACT_PATH-}
	[ -z "$artifacts" ] || [ -d "$artifacts" ] || fail "INSTALL_A4S_ARTIFACT_PATH=$artifacts: there is no such directory"
	base=$(option DOWNLOAD_URL https://github.com/a4s-io/a4s/releases)
	base=${base%/}/latest/download
	[ -z "${INSTALL_A4S_VERSION-}" ] || base=${base%/latest/download}/download/$INSTALL_A4S_VERSION

	trap finish EXIT
	$dry_run || for f in "$bin_dir"/.*.new.*; do # of a run that was killed
		[ -d "/proc/${f##*.}" ] || rm -f "$f"
	done
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
	work=$(mktemp -d) || fail "cannot make a temporary directory: is the disk full?"
	(umask 077 && environment >"$work/env")
	data_dir=$(flag --data-dir -d) config=$(flag --config -c)
	[ -n "$data_dir" ] || data_dir=$(env_value A4S_DATA_DIR)
	[ -n "$config" ] || config=$(env_value A4S_CONFIG_FILE)
	url=$(env_value A4S_URL)
	case $url in
	'' | https://*) ;;
	*) fail "A4S_URL=$url: it must begin with https://" ;;
	esac
	if [ "$command" = agent ] && [ -n "$url" ] && ! grep -q '^A4S_TOKEN' "$work/env" && [ -z "$(flag --token-file '')" ] &&
		! grep -qs '^token' "${config:-$config_dir/config.yaml}"; then
		fail "A4S_URL is set and A4S_TOKEN is not: it is in /var/lib/a4s/server/node-token on the server"
	fi

	plan_links
	get_program
	put_images
	if [ $init = systemd ]; then unit >"$work/unit"; else openrc_script >"$work/unit"; fi
	killall_script >"$work/killall"
	uninstall_script >"$work/uninstall"
	(umask 077 && remember >"$work/state")
	if [ $init = systemd ]; then put 644 "$work/unit" "$service_file"; else put 755 "$work/unit" "$service_file"; fi
	put 600 "$work/env" "$env_file"
	put 755 "$work/killall" "$bin_dir/a4s-killall.sh"
	put 755 "$work/uninstall" "$bin_dir/$service-uninstall.sh"
	put 600 "$work/state" "$state"
	if $dry_run; then
		for c in $new_links; do info "would link $bin_dir/$c to a4s"; done
		$skip_enable || info "would enable $service"
		$skip_start || info "would start or restart $service if something of it changes"
		info "Dry run: nothing was changed."
		return
	fi
	commit
	for c in $new_links; do ln -sf a4s "$bin_dir/$c"; done
	selinux_note
	start_service
	info "$service is installed: $bin_dir/a4s $command; $bin_dir/$service-uninstall.sh removes it."
}

main "$@"
