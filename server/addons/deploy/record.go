package deploy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

const (
	// recordNamespace is where the records are.
	recordNamespace = metav1.NamespaceSystem
	// recordLabel marks records and says what they are of.
	recordLabel   = "a4s.io/manifest"
	recordCarried = "carried"
	recordFile    = "file"

	recordPrefix = "a4s-manifest-"
	// maxSlug bounds the part of a record's name that is for people.
	maxSlug = 40
)

// ref names an object.
type ref struct {
	Tenant    string `json:"tenant,omitempty"`
	Group     string `json:"group,omitempty"`
	Version   string `json:"version,omitempty"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

func (o object) ref() ref {
	gvk := o.GroupVersionKind()
	return ref{Tenant: o.tenant, Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind,
		Namespace: o.GetNamespace(), Name: o.GetName()}
}

func (r ref) groupKind() schema.GroupKind { return schema.GroupKind{Group: r.Group, Kind: r.Kind} }

// same reports whether both name one object, which may be served in several
// versions.
func (r ref) same(other ref) bool {
	r.Version, other.Version = "", ""
	return r == other
}

// String is how people see it.
func (r ref) String() string {
	s := r.Kind + " " + r.Name
	if r.Namespace != "" {
		s = r.Kind + " " + r.Namespace + "/" + r.Name
	}
	if r.Tenant != "" {
		s += " of tenant " + r.Tenant
	}
	return s
}

func has(list []ref, r ref) bool { return slices.ContainsFunc(list, r.same) }

// without are the refs of list that are not in other.
func without(list, other []ref) []ref {
	var out []ref
	for _, r := range list {
		if !has(other, r) {
			out = append(out, r)
		}
	}
	return out
}

// record is what a file has brought.
type record struct {
	name    string
	of      string // recordCarried or recordFile
	file    string
	sum     string // of the content that was applied
	objects []ref
	stored  *corev1.ConfigMap // nil if there is none
}

// recordName is the name of the record of a file, and for files of the
// administrator the name in which their objects are applied.
func recordName(of, file string) string {
	slug := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, file)
	if len(slug) > maxSlug {
		slug = slug[:maxSlug]
	}
	sum := sha256.Sum256([]byte(of + "/" + file))
	return recordPrefix + strings.Trim(slug, "-") + "-" + hex.EncodeToString(sum[:4])
}

// records are the records in the API.
type records struct {
	client typedcorev1.ConfigMapInterface
}

// get reads the record of a file, an empty one if there is none.
func (s records) get(ctx context.Context, of, file string) (*record, error) {
	r := &record{name: recordName(of, file), of: of, file: file}
	cm, err := s.client.Get(ctx, r.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return r, nil
	case err != nil:
		return nil, fmt.Errorf("reading the record of %s: %w", file, err)
	}
	return r, r.read(cm)
}

func (r *record) read(cm *corev1.ConfigMap) error {
	r.stored, r.sum, r.objects = cm, cm.Data["checksum"], nil
	if text := cm.Data["objects"]; text != "" {
		if err := json.Unmarshal([]byte(text), &r.objects); err != nil {
			return fmt.Errorf("reading what ConfigMap %s/%s says: %w", recordNamespace, r.name, err)
		}
	}
	return nil
}

// others are the objects of all records but the one.
func (s records) others(ctx context.Context, name string) ([]ref, error) {
	list, err := s.client.List(ctx, metav1.ListOptions{LabelSelector: recordLabel})
	if err != nil {
		return nil, fmt.Errorf("reading the records of manifests: %w", err)
	}
	var out []ref
	for i := range list.Items {
		r := &record{name: list.Items[i].Name}
		if r.name == name {
			continue
		}
		if err := r.read(&list.Items[i]); err != nil {
			return nil, err
		}
		out = append(out, r.objects...)
	}
	return out, nil
}

// put stores the record with these objects, if that is any change. Whoever
// changed it since it was read is not overwritten.
func (s records) put(ctx context.Context, r *record, sum string, objects []ref) error {
	text, err := json.Marshal(objects)
	if err != nil {
		return err
	}
	data := map[string]string{"file": r.file, "checksum": sum, "objects": string(text)}
	if r.stored != nil && r.stored.Data["checksum"] == sum && r.stored.Data["objects"] == data["objects"] {
		return nil
	}
	var cm *corev1.ConfigMap
	if r.stored == nil {
		cm, err = s.client.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: r.name, Labels: map[string]string{recordLabel: r.of}}, Data: data,
		}, metav1.CreateOptions{FieldManager: FieldManager})
	} else {
		cm = r.stored.DeepCopy()
		cm.Data = data
		cm, err = s.client.Update(ctx, cm, metav1.UpdateOptions{FieldManager: FieldManager})
	}
	if err != nil {
		return fmt.Errorf("writing the record of %s: %w", r.file, err)
	}
	return r.read(cm)
}

// drop deletes the record.
func (s records) drop(ctx context.Context, r *record) error {
	if r.stored == nil {
		return nil
	}
	err := s.client.Delete(ctx, r.name,
		metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(r.stored.UID))})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting the record of %s: %w", r.file, err)
	}
	return nil
}
