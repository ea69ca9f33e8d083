package release

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	helmv1 "github.com/k3s-io/helm-controller/pkg/apis/helm.cattle.io/v1"
	"github.com/sirupsen/logrus"
	"helm.sh/helm/v4/pkg/action"
	anychart "helm.sh/helm/v4/pkg/chart"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/kube"
	anyrelease "helm.sh/helm/v4/pkg/release"
	"helm.sh/helm/v4/pkg/release/common"
	helmrelease "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage"
	"helm.sh/helm/v4/pkg/storage/driver"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	// interruptedLabel is on a revision that nobody works on any more, though it was not finished.
	interruptedLabel = "helmcharts.a4s.io/interrupted"
	// maxHistory is how many revisions are kept, as Helm's program does.
	maxHistory = 10
)

// The manager of fields is Helm's: a release may be upgraded by hand later, which is no conflict then.
func init() { kube.ManagedFieldsManager = "helm" }

// ErrNotHelms is a release that the library cannot have made.
var ErrNotHelms = errors.New("not a release that this version of Helm knows")

// Options are those of a release.
type Options struct {
	// Config reaches the API, with the rights that the chart is to have.
	Config          *rest.Config
	Name, Namespace string
	Driver          helmv1.HelmDriver
	// Timeout is how long each hook, and the end of what is uninstalled, is waited for.
	Timeout time.Duration
	Log     *logrus.Entry
}

// Client acts on one release, once.
type Client struct {
	options Options
	config  *action.Configuration
	kube    *kube.Client
	logs    *logs
}

// New returns a client whose requests end with ctx.
func New(ctx context.Context, o Options) (*Client, error) {
	access, err := newAccess(ctx, o.Config, o.Namespace)
	if err != nil {
		return nil, err
	}
	objects, err := kubernetes.NewForConfig(access.config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	logs := &logs{to: o.Log}
	config := action.NewConfiguration(action.ConfigurationSetLogger(logs))
	// A hook may ask for its logs to be shown, for which Helm calls this without asking whether there is one.
	config.SetHookOutputFunc(func(_, _, _ string) io.Writer { return io.Discard })
	client := kube.New(access)
	client.Namespace = o.Namespace
	client.SetLogger(logs)
	config.RESTClientGetter, config.KubeClient = access, client
	if o.Driver == helmv1.HelmDriverConfigMap {
		maps := driver.NewConfigMaps(objects.CoreV1().ConfigMaps(o.Namespace))
		maps.SetLogger(logs)
		config.Releases = storage.Init(maps)
	} else {
		secrets := driver.NewSecrets(objects.CoreV1().Secrets(o.Namespace))
		secrets.SetLogger(logs)
		config.Releases = storage.Init(secrets)
	}
	return &Client{options: o, config: config, kube: client, logs: logs}, nil
}

// CheckName says what is wrong with the name of a release.
func CheckName(name string) error {
	if err := chartutil.ValidateReleaseName(name); err != nil {
		return fmt.Errorf("%q cannot be the name of a release: %w", name, err)
	}
	return nil
}

// Request is what a release is to be made from.
type Request struct {
	Archive []byte
	Values  map[string]any
	// Hash is written to the release.
	Hash            string
	CreateNamespace bool
	TakeOwnership   bool
	ServerSide      helmv1.ServerSide
	ForceConflicts  bool
}

// load reads the chart. Each action needs one of its own, as it changes it.
func (r Request) load() (*chart.Chart, error) {
	c, err := loader.LoadArchive(bytes.NewReader(r.Archive))
	if err != nil {
		return nil, fmt.Errorf("reading the chart: %w", err)
	}
	if t := c.Metadata.Type; t != "" && t != "application" {
		return nil, fmt.Errorf("reading the chart: it is of type %q, which cannot be installed; want application", t)
	}
	if c.Metadata.Dependencies != nil {
		if err := missing(c); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// missing says which charts it needs that are not in it.
func missing(c *chart.Chart) error {
	dependencies := make([]anychart.Dependency, len(c.Metadata.Dependencies))
	for i, d := range c.Metadata.Dependencies {
		dependencies[i] = d
	}
	if err := action.CheckDependencies(c, dependencies); err != nil {
		return fmt.Errorf("the chart is not complete: %w", err)
	}
	return nil
}

// Apply makes a release, or another revision of it.
func (c *Client) Apply(ctx context.Context, r Request) error {
	loaded, err := r.load()
	if err != nil {
		return err
	}
	all, err := c.history()
	if err != nil {
		return err
	}
	// That an upgrade replaced the last one that was deployed is written before that it is deployed itself: whoever
	// ends between leaves none.
	if slices.ContainsFunc(all, func(r *helmrelease.Release) bool {
		return r.Info.Status == common.StatusDeployed || r.Info.Status == common.StatusSuperseded
	}) {
		return c.upgrade(ctx, loaded, r)
	}
	return c.install(ctx, loaded, r)
}

// install makes the first revision that is deployed. There may be others before it, which failed: an upgrade would
// leave out the hooks that run before an installation. What they have brought is taken over.
func (c *Client) install(ctx context.Context, loaded *chart.Chart, r Request) error {
	install := action.NewInstall(c.config)
	install.ReleaseName, install.Namespace, install.Replace = c.options.Name, c.options.Namespace, true
	install.Labels = map[string]string{HashLabel: r.Hash}
	install.CreateNamespace, install.TakeOwnership = r.CreateNamespace, r.TakeOwnership
	install.ServerSideApply = r.ServerSide != helmv1.ServerSideFalse
	install.ForceConflicts = r.ForceConflicts
	install.WaitStrategy, install.WaitOptions = kube.HookOnlyStrategy, waits(ctx)
	install.Timeout = c.options.Timeout
	_, err := install.RunWithContext(ctx, loaded, r.Values)
	return err
}

func (c *Client) upgrade(ctx context.Context, loaded *chart.Chart, r Request) error {
	upgrade := action.NewUpgrade(c.config)
	upgrade.Namespace, upgrade.TakeOwnership = c.options.Namespace, r.TakeOwnership
	// "null" takes away a label that the last revision has.
	upgrade.Labels = map[string]string{HashLabel: r.Hash, interruptedLabel: "null"}
	if r.ServerSide != "" {
		upgrade.ServerSideApply = string(r.ServerSide)
	}
	upgrade.ForceConflicts, upgrade.ResetValues = r.ForceConflicts, true
	upgrade.WaitStrategy, upgrade.WaitOptions = kube.HookOnlyStrategy, waits(ctx)
	upgrade.Timeout, upgrade.MaxHistory = c.options.Timeout, maxHistory
	_, err := upgrade.RunWithContext(ctx, c.options.Name, loaded, r.Values)
	return err
}

// Failure is what the last revision says of itself.
func (c *Client) Failure() (string, error) {
	last, err := c.last()
	if err != nil {
		return "", err
	}
	return last.Info.Description, nil
}

func (c *Client) last() (*helmrelease.Release, error) {
	last, err := c.config.Releases.Last(c.options.Name)
	if err != nil {
		return nil, fmt.Errorf("reading the release: %w", err)
	}
	return helms(last)
}

// history are all revisions, of which there may be none.
func (c *Client) history() (all []*helmrelease.Release, err error) {
	found, err := c.config.Releases.History(c.options.Name)
	if err != nil && !errors.Is(err, driver.ErrReleaseNotFound) {
		return nil, fmt.Errorf("reading the release: %w", err)
	}
	for _, r := range found {
		one, err := helms(r)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

func helms(r anyrelease.Releaser) (*helmrelease.Release, error) {
	release, ok := r.(*helmrelease.Release)
	if !ok {
		return nil, fmt.Errorf("%w: %T", ErrNotHelms, r)
	}
	return release, nil
}

// Interrupted marks the last revision as one that nobody works on any more, so that Helm makes another one.
func (c *Client) Interrupted() error {
	release, err := c.last()
	if err != nil {
		return err
	}
	labels := map[string]string{interruptedLabel: "true"}
	if hash := release.Labels[HashLabel]; hash != "" {
		labels[HashLabel] = hash
	}
	release.Labels = labels
	release.SetStatus(common.StatusFailed, "interrupted: the server ended while it worked on the release")
	if err := c.config.Releases.Update(release); err != nil {
		return fmt.Errorf("marking the release as interrupted: %w", err)
	}
	return nil
}

func waits(ctx context.Context) []kube.WaitOption {
	return []kube.WaitOption{kube.WithWaitContext(ctx)}
}
