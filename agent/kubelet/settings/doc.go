// Package settings builds the configuration that a4s gives the kubelet: the
// KubeletConfiguration file and the values that the kubelet knows as flags
// only.
//
// Invariants: everything comes from the Node that is passed in, so the same
// input gives the same bytes; what is not set here keeps the kubelet's own
// default.
//
// agent/kubelet imports it. It imports no Kubernetes server code, so its tests
// build in seconds.
package settings
