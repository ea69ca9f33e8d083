// Package objectstore starts a real S3 server for tests: the gateway of Versity
// on a directory, with TLS by an authority of the test's own.
//
// Invariants: the server is built from the module tests/s3server, ends with the
// test, keeps its data in a directory of the test and listens on loopback only.
//
// Only tests may import it.
package objectstore
