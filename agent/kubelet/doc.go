// Package kubelet runs the upstream kubelet inside the a4s process, assembled
// from its exported functions: configuration file -> flags -> dependencies ->
// app.Run.
//
// Invariants: the kubelet talks to the API only through the clients made here, which
// Options.Router sends to the partitions of the cluster, but for heartbeats, which go to the
// servers of the node directly; it is configured only through Options, with --kubelet-arg winning over what a4s sets.
//
// What is global in upstream, and so is decided once per process: the feature
// gates (a gate set here holds for every component in the process), the
// privileged-container capability (allowed), the OOM score and the limit of
// open files of the process, the message READY=1 to systemd if NOTIFY_SOCKET
// is still in the environment.
//
// What cannot be restarted: upstream never closes the listeners on the
// kubelet's ports, and it calls os.Exit when it cannot open them or when its
// container manager does not start. A failure before that point is an error
// of Run, which may be called again. After it, a4s itself must be restarted:
// a second Run in the process fails because the ports are taken.
//
// agent's wiring imports it.
package kubelet
