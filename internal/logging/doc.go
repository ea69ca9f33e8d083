// Package logging gives the whole process one log: ours (logrus), klog of the
// Kubernetes components, zap of etcd and the standard library's logger all end
// in logrus' standard logger, in one format and under one level.
//
// Upstream components log every step of their start at klog's default level.
// That would bury the few lines a4s has to say, so their informational lines
// are shown only with --debug or -v 1 and above; their errors always are.
//
// Invariants: Setup is called once, by main, before anything logs. Levels are
// not changed afterwards.
//
// main and cmd may import it; others use logrus. It imports klog and zap but
// no Kubernetes component.
package logging
