// Package featuregates looks at the feature gates and the emulated versions that an
// operator passes through to a program of Kubernetes, before it is parsed: parsing
// puts them into a registry that the process has once, and a mistake stays there.
//
// Invariants: nothing of the process is changed.
//
// The components of server/controlplane import it.
package featuregates
