package nodelife

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// SecretType is the type of the Secrets.
	SecretType corev1.SecretType = "a4s.io/node"

	suffix       = ".node.a4s"
	keyLife      = "life"
	keyFormer    = "former"
	keyAddresses = "addresses"
	keyEnded     = "ended"
)

// Record is what is known of a node.
type Record struct {
	// Life is that of the certificates that are good, "" for none.
	Life string
	// Former says that certificates without a life are good, too.
	Former bool
	// Addresses are those that the node joined with; none if that was not written down.
	Addresses []netip.Addr
	// Ended is when a life ended last.
	Ended time.Time
}

// Good reports whether a certificate of a life, "" for one that says none, is good.
func (r Record) Good(life string) bool {
	return r.Life != "" && (life == r.Life || life == "" && r.Former)
}

// former ends a mark of which certificates without a life are good, too.
const former = "+"

// Mark is what other partitions know of the record: an annotation of the Node, which they have
// a copy of.
func (r Record) Mark() string {
	switch {
	case r.Life == "":
		return "ended"
	case r.Former:
		return r.Life + former
	}
	return r.Life
}

// GoodBy is Good by a mark.
func GoodBy(mark, life string) bool {
	is, legacy := strings.CutSuffix(mark, former)
	return life == is || life == "" && legacy
}

// nodeOf is the node that a Secret is of.
func nodeOf(s *corev1.Secret) (string, bool) {
	if s.Type != SecretType || s.Namespace != metav1.NamespaceSystem {
		return "", false
	}
	return strings.CutSuffix(s.Name, suffix)
}

// read reads a Secret. What cannot be read has no life.
func read(s *corev1.Secret) (Record, error) {
	r := Record{Life: string(s.Data[keyLife]), Former: string(s.Data[keyFormer]) == "true"}
	for text := range strings.FieldsSeq(string(s.Data[keyAddresses])) {
		ip, err := netip.ParseAddr(text)
		if err != nil {
			return Record{}, fmt.Errorf("the addresses in Secret %s: %w", s.Name, err)
		}
		r.Addresses = append(r.Addresses, ip)
	}
	if text := string(s.Data[keyEnded]); text != "" {
		var err error
		if r.Ended, err = time.Parse(time.RFC3339, text); err != nil {
			return Record{}, fmt.Errorf("the time in Secret %s: %w", s.Name, err)
		}
	}
	if r.Life == "" && r.Ended.IsZero() {
		return Record{}, errors.New("Secret " + s.Name + " says nothing")
	}
	return r, nil
}

// write puts the record into a Secret.
func (r Record) write(s *corev1.Secret) {
	s.Data = map[string][]byte{}
	var texts []string
	for _, ip := range r.Addresses {
		texts = append(texts, ip.String())
	}
	if r.Life != "" {
		s.Data[keyLife] = []byte(r.Life)
	}
	if r.Former {
		s.Data[keyFormer] = []byte("true")
	}
	if len(texts) > 0 {
		s.Data[keyAddresses] = []byte(strings.Join(texts, " "))
	}
	if !r.Ended.IsZero() {
		s.Data[keyEnded] = []byte(r.Ended.UTC().Format(time.RFC3339))
	}
}

// same reports whether nothing differs.
func (r Record) same(o Record) bool {
	return r.Life == o.Life && r.Former == o.Former && slices.Equal(r.Addresses, o.Addresses) && r.Ended.Equal(o.Ended)
}
