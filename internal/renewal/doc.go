// Package renewal keeps certificates from expiring while a4s runs.
//
// Invariants: certificates are renewed in their files, under the keys that
// they have, and whoever uses them reads the files again; nothing is restarted
// for a certificate. A renewal that fails is tried again until it succeeds,
// and says so in the log every time.
//
// server and agent may import it. It imports no Kubernetes code.
package renewal
