#!/bin/sh
# What the guest is booted for. Each line that begins with OK or FAILED is one
# result; the test reads them. It runs twice: the first run ends with a reboot.
export PATH="$PATH:/usr/local/bin:/usr/sbin:/sbin"
now() { cut -d. -f1 /proc/uptime; }
begin=$(now)
ok() { echo "OK $1 (after $(($(now) - begin)) s)"; }
check() { # NAME COMMAND...: one try
	name=$1
	shift
	if "$@"; then ok "$name"; else echo "FAILED $name"; fi
}
wait_for() { # NAME COMMAND...: until it succeeds; everything is slow here
	name=$1
	shift
	n=0
	until "$@" >/dev/null 2>&1; do
		n=$((n + 1))
		if [ $n -gt 150 ]; then
			echo "FAILED $name"
			"$@"
			return
		fi
		sleep 2
	done
	ok "$name"
}
k() { a4s kubectl "$@"; }
unified() { [ "$(stat -fc %T /sys/fs/cgroup)" = cgroup2fs ]; }
node_ready() { k get nodes | grep -q ' Ready'; }
available() { k wait --for=condition=Available deployment/web --timeout=1s; }
by_name() { [ "$(k exec deployment/web -- /testbox get http://web/hostname | cut -c1-4)" = web- ]; }
container() { k get pods -l app=web -o 'jsonpath={.items[0].status.containerStatuses[0].containerID}'; }
same_container() { [ -n "$first" ] && [ "$(container)" = "$first" ]; }
other_container() { [ -n "$(container)" ] && ! same_container; }
oom_killed() { k get pod oom -o 'jsonpath={.status.containerStatuses[0].state.terminated.reason}' | grep -q OOMKilled; }
shims_run() { pgrep -f containerd-shim >/dev/null; }
nothing_left() {
	left=$(
		pgrep -af 'containerd|testbox|/pause'
		mount | grep -E 'a4s|kubelet|netns'
		ip -br link | grep -E 'cni-a4s0|flannel|a4s-dns|veth'
		nft list tables | grep -E 'kube|flannel|cni|a4s'
		find /sys/fs/cgroup -name '*kubepods*'
		systemctl list-units --all --no-legend 'kubepods*' 'cri-containerd*'
	)
	[ -z "$left" ] || echo "$left"
	[ -z "$left" ]
}

files() { find /etc /usr /opt /var /run/a4s -xdev \( -path /var/log/journal -o -path /var/lib/systemd -o -path /var/tmp \) -prune -o -print 2>/dev/null | sort; }
same_files() { files | diff /var/tmp/files.before -; }
installer() { env "$@" sh /opt/a4s/install.sh; }
service_pid() { systemctl show -p MainPID --value a4s; }
same_process() { [ "$(service_pid)" = "$pid" ]; }
next_build() { a4s --version | grep -q v0.0.0-next; }
first_build() { ! next_build; }
renewed() { # the node's lease, since the clock was set and not in the future
	at=$(date -d "$(k get lease -n kube-node-lease kept -o 'jsonpath={.spec.renewTime}')" +%s)
	[ "$at" -ge "$set_at" ] && [ "$at" -le "$(date +%s)" ]
}
token_works() { # POD: what it says of itself with its token
	k logs "$1" | grep -q '^user system:serviceaccount:default:default'
}
old_token_works() { k exec deployment/web -- /testbox api | grep -q '^user system:serviceaccount:default:default'; }
told_of_clock() { a4s doctor -o json | grep -q "by $1.*, to "; }
clock() { # NAME DATE SIGN: sets the clock of a running cluster
	check "clock $1: set" date -s "$2"
	set_at=$(date +%s)
	wait_for "clock $1: the lease of the node is renewed" renewed
	wait_for "clock $1: node ready" node_ready
	check "clock $1: certificates are valid" a4s certificate check
	wait_for "clock $1: doctor tells of it" told_of_clock "$3"
	k run "clock-$1" --image=docker.io/a4s/testbox:1 --restart=Never -- api
	wait_for "clock $1: the token of a new pod works" token_works "clock-$1"
	check "clock $1: a4s was not restarted" same_process
	check "clock $1: the container is the same" same_container
}
options_kept() { k get nodes -l tier=test | grep -Eq '^kept +Ready'; }

first_boot() {
	files >/var/tmp/files.before
	check 'cgroup v2 only' unified
	check 'dry run' installer INSTALL_A4S_ARTIFACT_PATH=/opt/a4s/first INSTALL_A4S_DRY_RUN=true
	check 'dry run changed nothing' same_files
	check 'install' installer INSTALL_A4S_ARTIFACT_PATH=/opt/a4s/first INSTALL_A4S_SKIP_START=true \
		A4S_NODE_NAME=kept 'INSTALL_A4S_EXEC=server --node-label tier=test'
	check 'enabled at boot' systemctl is-enabled a4s
	check 'check-config passes' a4s check-config
	check 'the service becomes active' systemctl start a4s
	wait_for 'node ready' node_ready
	k create deployment web --image=docker.io/a4s/testbox:1 --port=8080 -- /testbox serve
	wait_for 'deployment available' available
	k expose deployment web --port=80 --target-port=8080
	wait_for 'service answers by its name' by_name
	check 'systemd driver for pod cgroups' test -d /sys/fs/cgroup/kubepods.slice
	k apply -f - <<-POD
	apiVersion: v1
	kind: Pod
	metadata: {name: oom}
	spec:
	  restartPolicy: Never
	  containers:
	  - name: c
	    image: docker.io/a4s/testbox:1
	    command: [/testbox, eat, "200"]
	    resources: {limits: {memory: 40Mi}}
	POD
	wait_for 'memory limit kills' oom_killed
	container >/var/tmp/container
	echo second_boot >/var/tmp/next
	touch /run/job-reboots
}

second_boot() {
	first=$(cat /var/tmp/container)
	wait_for 'active after the reboot' systemctl is-active a4s
	wait_for 'the lease of the node is renewed after the reboot' renewed
	wait_for 'node ready after the reboot' node_ready
	wait_for 'a new container after the reboot' other_container
	wait_for 'service answers by its name after the reboot' by_name
	first=$(container)
	check 'restart of the service' systemctl restart a4s
	wait_for 'node ready after the restart' node_ready
	wait_for 'available after the restart' available
	check 'the restart kept the container' same_container
	systemctl kill --kill-whom=main --signal=KILL a4s
	sleep 1
	wait_for 'active after a kill' systemctl is-active a4s
	wait_for 'available after the kill' available
	check 'the kill kept the container' same_container
	pid=$(service_pid)
	wait_for 'the token of a pod works' old_token_works
	clock forward '+1 hour' '[0-9]'
	wait_for 'clock forward: the token of an old pod works' old_token_works
	# What was signed in that hour is not valid before; tokens of pods are again
	# when the clock gets there, or with a new pod.
	clock back '-1 hour' -
	wait_for 'clock back: available' available
	check 'install again, without options' installer INSTALL_A4S_ARTIFACT_PATH=/opt/a4s/first
	check 'installing the same again did not restart it' same_process
	check 'upgrade' installer INSTALL_A4S_ARTIFACT_PATH=/opt/a4s/next
	check 'the upgrade is the other build' next_build
	wait_for 'options kept by the upgrade' options_kept
	wait_for 'available after the upgrade' available
	check 'the upgrade kept the container' same_container
	check 'rollback' installer INSTALL_A4S_ROLLBACK=true
	check 'the rollback is the first build' first_build
	wait_for 'options kept by the rollback' options_kept
	wait_for 'available after the rollback' available
	check 'the rollback kept the container' same_container
	check 'stop of the service' systemctl stop a4s
	check 'pods survive the stop' shims_run
	check 'killall' a4s-killall.sh
	check 'nothing is left' nothing_left
	check 'start after killall' systemctl start a4s
	wait_for 'a new container after killall' other_container
	wait_for 'available after killall' available
	check 'uninstall' a4s-uninstall.sh
	check 'nothing is left of it' nothing_left
	check 'its files are gone' same_files
	check 'its service is gone' test "$(systemctl show -p LoadState --value a4s)" = not-found
	journalctl -u a4s --no-pager | grep -v level=info | tail -n 60
	echo DONE
}

set_at=$(date +%s)
part=$(cat /var/tmp/next 2>/dev/null || echo first_boot)
echo unexpected >/var/tmp/next
case $part in
unexpected) echo 'FAILED the guest restarted by itself' ;;
*) $part ;;
esac
