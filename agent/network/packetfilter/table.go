package packetfilter

import (
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/knftables"
)

// TableName is the name of the nftables table; its family is inet.
const TableName = "a4s_filter"

// Tables of versions that had one for each part.
const (
	oldTenantsTable  = "a4s_tenants"
	oldPoliciesTable = "a4s_policies"
)

// prefix is what the names of all objects of the tenants' part begin with, and
// no name of the policies' part does.
const prefix = "tenants-"

// table is what one part of the table holds. Keys of elements are in the syntax of nft.
type table struct {
	sets   map[string]nftSet
	maps   map[string]nftMap
	chains map[string]nftChain
}

type nftSet struct {
	typ      string
	interval bool
	elements map[string]bool
}

type nftMap struct {
	typ      string
	elements map[string]string // values are verdicts
}

type nftChain struct {
	comment string
	// priority makes it a base chain of the forward hook, if it is set.
	priority string
	rules    []string
}

// newTable returns a table that holds nothing.
func newTable() *table {
	return &table{sets: map[string]nftSet{}, maps: map[string]nftMap{}, chains: map[string]nftChain{}}
}

// object is the declaration of a chain, in which no rules are yet.
func (c nftChain) object(name string) *knftables.Chain {
	chain := &knftables.Chain{Name: name}
	if c.comment != "" {
		chain.Comment = &c.comment
	}
	if c.priority != "" {
		chain.Type, chain.Hook = knftables.PtrTo(knftables.FilterType), knftables.PtrTo(knftables.ForwardHook)
		chain.Priority = knftables.PtrTo(knftables.BaseChainPriority(c.priority))
	}
	return chain
}

// change turns old into t. The order keeps the kernel content: what is referred
// to is there before, and goes after.
func (t *table) change(tx *knftables.Transaction, old *table) {
	for _, name := range slices.Sorted(maps.Keys(t.sets)) {
		if s := t.sets[name]; !has(old.sets, name) {
			object := &knftables.Set{Name: name, Type: s.typ}
			if s.interval {
				object.Flags = []knftables.SetFlag{knftables.IntervalFlag}
			}
			tx.Add(object)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.maps)) {
		if !has(old.maps, name) {
			tx.Add(&knftables.Map{Name: name, Type: t.maps[name].typ})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.chains)) {
		if !has(old.chains, name) {
			tx.Add(t.chains[name].object(name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(old.chains)) {
		if !has(t.chains, name) {
			tx.Flush(&knftables.Chain{Name: name}) // lets go of what it refers to
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.chains)) {
		c, before := t.chains[name], old.chains[name]
		if slices.Equal(c.rules, before.rules) {
			continue
		}
		if has(old.chains, name) {
			tx.Flush(&knftables.Chain{Name: name})
		}
		for _, rule := range c.rules {
			tx.Add(&knftables.Rule{Chain: name, Rule: rule})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.sets)) {
		elements, before := t.sets[name].elements, old.sets[name].elements
		for _, key := range without(before, elements) {
			tx.Delete(&knftables.Element{Set: name, Key: split(key)})
		}
		for _, key := range without(elements, before) {
			tx.Add(&knftables.Element{Set: name, Key: split(key)})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.maps)) {
		elements, before := t.maps[name].elements, old.maps[name].elements
		for _, key := range slices.Sorted(maps.Keys(before)) {
			if elements[key] != before[key] {
				tx.Delete(&knftables.Element{Map: name, Key: split(key), Value: []string{before[key]}})
			}
		}
		for _, key := range slices.Sorted(maps.Keys(elements)) {
			if elements[key] != before[key] {
				tx.Add(&knftables.Element{Map: name, Key: split(key), Value: []string{elements[key]}})
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(old.chains)) {
		if !has(t.chains, name) {
			tx.Delete(&knftables.Chain{Name: name})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(old.maps)) {
		if !has(t.maps, name) {
			tx.Delete(&knftables.Map{Name: name})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(old.sets)) {
		if !has(t.sets, name) {
			tx.Delete(&knftables.Set{Name: name})
		}
	}
}

// set adds an empty set.
func (t *table) set(name, typ string) {
	t.sets[name] = nftSet{typ: typ, elements: map[string]bool{}}
}

// intervals adds a set of ranges.
func (t *table) intervals(name, typ string, elements []string) {
	t.sets[name] = nftSet{typ: typ, interval: true, elements: map[string]bool{}}
	for _, e := range elements {
		t.sets[name].elements[e] = true
	}
}

// verdicts adds an empty map to verdicts.
func (t *table) verdicts(name, typ string) {
	t.maps[name] = nftMap{typ: typ + " : verdict", elements: map[string]string{}}
}

func has[T any](of map[string]T, name string) bool {
	_, ok := of[name]
	return ok
}

// without returns the keys of a that are not in b.
func without(a, b map[string]bool) (out []string) {
	for _, key := range slices.Sorted(maps.Keys(a)) {
		if !b[key] {
			out = append(out, key)
		}
	}
	return out
}

// split takes the key of an element apart.
func split(key string) []string { return strings.Split(key, " . ") }
