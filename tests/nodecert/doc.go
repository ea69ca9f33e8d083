// Package nodecert gives a node of a test the credential that a join would give it.
//
// Only tests import it. It imports internal/pki and nothing of servers.
package nodecert
