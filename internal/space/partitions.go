package space

import (
	"fmt"
	"strings"
)

// MaxPartition is the longest name of a tenant partition, in characters.
const MaxPartition = 24

// Qualified names are those by which a node knows what the system space of a
// tenant partition has: every partition has a "kube-system". Those of the home
// partition, whose name is "" here, stay plain, and so do the names of tenants,
// each of whom lives in one partition.
//
//	partition   composite     on the node
//	""          kube-system   kube-system
//	tp2         kube-system   kube-system.tp2.system
//	tp2         default.t1    default.t1
//	tp2         pv1           pv1.tp2.system.tenant
//
// No tenant is called "system", so no name of a tenant ends like a qualified one.
const (
	qualifiedNamespace = "." + System
	qualifiedName      = "." + System + Suffix
)

// ValidatePartition says what is wrong with a name for a partition.
func ValidatePartition(name string) error {
	if len(name) > MaxPartition {
		return fmt.Errorf("%w: the partition name %q has %d characters, at most %d are possible", ErrTooLong, name,
			len(name), MaxPartition)
	}
	if !isLabel(name) {
		return fmt.Errorf("%w: the partition name %q must consist of lower case letters, digits and '-', "+
			"and begin and end with a letter or digit", ErrInvalid, name)
	}
	return nil
}

// QualifyNamespace is the name on a node of a composite namespace of a partition.
func QualifyNamespace(partition, composite string) string {
	if partition == "" || composite == "" || strings.Contains(composite, ".") {
		return composite
	}
	return composite + "." + partition + qualifiedNamespace
}

// UnqualifyNamespace is the inverse of QualifyNamespace. The partition is "" for
// names of the home partition and for those of tenants.
func UnqualifyNamespace(namespace string) (partition, composite string) {
	rest, ok := strings.CutSuffix(namespace, qualifiedNamespace)
	if !ok {
		return "", namespace
	}
	composite, partition, ok = strings.Cut(rest, ".")
	if !ok || composite == "" || partition == "" || strings.Contains(partition, ".") {
		return "", namespace
	}
	return partition, composite
}

// QualifyClusterName is QualifyNamespace for the name of a cluster-scoped object.
func QualifyClusterName(partition, composite string) string {
	if partition == "" || composite == "" || strings.HasSuffix(composite, Suffix) {
		return composite
	}
	return composite + "." + partition + qualifiedName
}

// UnqualifyClusterName is the inverse of QualifyClusterName.
func UnqualifyClusterName(name string) (partition, composite string) {
	rest, ok := strings.CutSuffix(name, qualifiedName)
	if !ok {
		return "", name
	}
	if i := strings.LastIndexByte(rest, '.'); i > 0 && i < len(rest)-1 {
		return rest[i+1:], rest[:i]
	}
	return "", name
}
