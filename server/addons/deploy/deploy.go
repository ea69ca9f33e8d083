package deploy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	eventrecord "k8s.io/client-go/tools/record"

	"github.com/a4s-io/a4s/internal/component"
)

// Name is the component's name.
const Name = "manifests"

// FieldManager is in whose name the carried manifests are applied.
const FieldManager = "a4s"

// Values are the template fields of a carried manifest.
type Values struct {
	// ClusterDNS is the service address of the cluster DNS.
	ClusterDNS string
	// NodeImporter is the user that writes copies of the nodes of other partitions.
	NodeImporter string
}

// Options configures the deployer.
type Options struct {
	Config *rest.Config
	// FS holds the carried manifests, NAME.yaml each.
	FS     fs.FS
	Values Values
	// Disabled are the names of carried manifests that are not to be there.
	Disabled []string
	// Dir is the administrator's directory of manifests, which exists.
	Dir string
	Log *logrus.Entry
}

// Reasons of events.
const (
	reasonApplied  = "AppliedManifest"
	reasonUnread   = "ReadManifestFailed"
	reasonUnparsed = "ParseManifestFailed"
	reasonRefused  = "ApplyManifestFailed"
)

// New returns a component that applies the carried manifests, is ready then,
// and goes on with those of the administrator.
func New(o Options) component.Component {
	return component.Component{Name: Name, Run: o.run}
}

// manifest is a file that was read.
type manifest struct {
	of      string // recordCarried or recordFile
	file    string // the name that people know it by
	sum     string
	objects []object
	err     error // why it cannot be applied
}

// manager is in whose name the objects of the file are applied.
func (m manifest) manager() string {
	if m.of == recordCarried {
		return FieldManager
	}
	return recordName(m.of, m.file)
}

func (o Options) run(ctx context.Context, ready func()) error {
	carried, gone, err := o.carried()
	if err != nil {
		return err
	}
	core, err := kubernetes.NewForConfig(o.Config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	broadcaster := eventrecord.NewBroadcaster(eventrecord.WithContext(ctx))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: core.CoreV1().Events(recordNamespace)})
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return err
	}
	d := &deployer{
		config:  o.Config,
		records: records{client: core.CoreV1().ConfigMaps(recordNamespace)},
		events:  broadcaster.NewRecorder(scheme, corev1.EventSource{Component: "a4s"}),
		log:     o.Log,
	}
	if !d.deployCarried(ctx, carried, gone) {
		return nil
	}
	ready()
	d.follow(ctx, o.Dir)
	return nil
}

// carried reads the carried manifests that are wanted, and those that are not.
func (o Options) carried() (wanted, gone []manifest, err error) {
	names, err := fs.Glob(o.FS, "*.yaml")
	if err != nil {
		return nil, nil, fmt.Errorf("listing the manifests: %w", err)
	}
	for _, file := range names {
		m := manifest{of: recordCarried, file: file}
		text, err := render(o.FS, file, o.Values)
		if err == nil {
			m.sum = checksum(text)
			m.objects, err = parse(file, text)
		}
		switch {
		case err != nil:
			return nil, nil, fmt.Errorf("manifest %s: %w", file, err)
		case slices.Contains(o.Disabled, strings.TrimSuffix(file, ".yaml")):
			gone = append(gone, m)
		case skipped(o.Dir, file):
			o.Log.Infof("Manifest %s is left as it is: there is %s%s", file, file, skipSuffix)
		default:
			wanted = append(wanted, m)
		}
	}
	return wanted, gone, nil
}

func render(files fs.FS, name string, v Values) ([]byte, error) {
	t, err := template.New(path.Base(name)).Option("missingkey=error").ParseFS(files, name)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	if err := t.Execute(&text, v); err != nil {
		return nil, err
	}
	return text.Bytes(), nil
}

func checksum(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// deployer applies manifests.
type deployer struct {
	config  *rest.Config
	records records
	events  eventrecord.EventRecorder
	log     *logrus.Entry
}

// Pauses after a round of carried manifests that failed: at first the API
// server is still making its own namespaces.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 2 * time.Second
)

// deployCarried goes on until the carried manifests are as wanted. It is false
// if the context ended before.
func (d *deployer) deployCarried(ctx context.Context, wanted, gone []manifest) bool {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		failed := d.deploy(ctx, wanted)
		var again []manifest
		var errs []error
		for i, m := range wanted {
			if failed[i] != nil {
				again = append(again, m)
				errs = append(errs, failed[i])
			}
		}
		wanted = again
		gone = slices.DeleteFunc(gone, func(m manifest) bool {
			err := d.withdraw(ctx, m)
			if err != nil {
				errs = append(errs, err)
			}
			return err == nil
		})
		if len(wanted)+len(gone) == 0 {
			return true
		}
		if ctx.Err() == nil {
			d.log.WithError(errors.Join(errs...)).Debug("Carried manifests are not applied yet")
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return false
		}
	}
}

// deploy applies manifests and then deletes what left them, so that an object
// can move from one to the other. It returns an error for each that is not as
// it should be.
func (d *deployer) deploy(ctx context.Context, list []manifest) []error {
	errs := make([]error, len(list))
	in := newSpaces(d.config)
	type applied struct {
		record *record
		now    []ref
		news   bool
	}
	done := make([]applied, len(list))
	for i, m := range list {
		if m.err != nil {
			errs[i] = m.err
			continue
		}
		r, err := d.records.get(ctx, m.of, m.file)
		if err != nil {
			errs[i] = err
			continue
		}
		objects, unknown := in.locate(m.objects)
		now := refs(objects)
		news := r.sum != m.sum
		// What is about to be applied is recorded before.
		if err := d.records.put(ctx, r, r.sum, append(without(r.objects, now), now...)); err != nil {
			errs[i] = err
			continue
		}
		if err := errors.Join(unknown, apply(ctx, objects, m)); err != nil {
			errs[i] = err
			continue
		}
		done[i] = applied{record: r, now: now, news: news}
	}
	for i, m := range list {
		if errs[i] != nil {
			continue
		}
		removed, err := d.prune(ctx, in, m, done[i].record, done[i].now)
		if errs[i] = err; err == nil && (done[i].news || len(removed) > 0) {
			d.applied(m, done[i].record, removed)
		}
	}
	return errs
}

// prune deletes what the record of a manifest has besides now.
func (d *deployer) prune(
	ctx context.Context, in *spaces, m manifest, r *record, now []ref,
) (removed []ref, err error) {
	stale := without(r.objects, now)
	if len(stale) > 0 {
		others, err := d.records.others(ctx, r.name)
		if err != nil {
			return nil, err
		}
		if removed, err = in.remove(ctx, without(stale, others), m.manager()); err != nil {
			return removed, err
		}
	}
	return removed, d.records.put(ctx, r, m.sum, now)
}

// withdraw deletes what a carried manifest has brought, as far as its record
// knows or the manifest says.
func (d *deployer) withdraw(ctx context.Context, m manifest) error {
	r, err := d.records.get(ctx, m.of, m.file)
	if err != nil {
		return err
	}
	in := newSpaces(d.config)
	objects, err := in.locate(m.objects)
	if err != nil && !passing(err) {
		return err
	}
	others, err := d.records.others(ctx, r.name)
	if err != nil {
		return err
	}
	now := refs(objects)
	removed, err := in.remove(ctx, without(append(without(r.objects, now), now...), others), m.manager())
	if err != nil {
		return err
	}
	if len(removed) > 0 {
		d.log.Infof("Manifest %s is disabled: deleted %s", m.file, names(removed))
	}
	return d.records.drop(ctx, r)
}

func refs(objects []found) []ref {
	out := make([]ref, 0, len(objects))
	for _, o := range objects {
		out = append(out, o.ref)
	}
	return out
}

func names(list []ref) string {
	out := make([]string, 0, len(list))
	for _, r := range list {
		out = append(out, r.String())
	}
	return strings.Join(out, ", ")
}

// maxMessage is how long the API lets the message of an event be.
const maxMessage = 1024

// applied says that a manifest is as it should be.
func (d *deployer) applied(m manifest, r *record, removed []ref) {
	text := fmt.Sprintf("%s: applied %d objects", m.file, len(m.objects))
	if len(removed) > 0 {
		text += ", deleted " + names(removed)
	}
	d.event(m, r.stored, corev1.EventTypeNormal, reasonApplied, text)
	if m.of == recordFile {
		d.log.Info("Manifest " + text)
	}
}

// failed says why a manifest is not.
func (d *deployer) failed(ctx context.Context, m manifest, reason string, err error) {
	text := fmt.Sprintf("%s: %v", m.file, err)
	d.log.Warn("Manifest " + text)
	r, err := d.records.get(ctx, m.of, m.file)
	if err != nil {
		return // the API is what failed
	}
	d.event(m, r.stored, corev1.EventTypeWarning, reason, text)
}

func (d *deployer) event(m manifest, cm *corev1.ConfigMap, kind, reason, text string) {
	about := &corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: recordNamespace,
		Name: recordName(m.of, m.file)}
	if cm != nil {
		about.UID = cm.UID
	}
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage-3], "") + "..."
	}
	d.events.Event(about, kind, reason, text)
}
