package release

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/kube"
	"helm.sh/helm/v4/pkg/release/common"
	helmrelease "helm.sh/helm/v4/pkg/release/v1"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
	"helm.sh/helm/v4/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/resource"
)

// Annotations of Helm that say which release has brought an object.
const (
	ownerAnnotation          = "meta.helm.sh/release-name"
	ownerNamespaceAnnotation = "meta.helm.sh/release-namespace"
)

// Label of Helm on what it has brought.
const (
	managerLabel = "app.kubernetes.io/managed-by"
	managerHelm  = "Helm"
)

// Uninstall removes what the release brought, waits for that to be gone, and then forgets the release: one that is
// forgotten earlier would leave objects that nobody knows any more. It returns what Helm says of objects that it has
// left. In a namespace that is being deleted no hook can be made, so it goes without hooks there.
func (c *Client) Uninstall(ctx context.Context) (left string, err error) {
	left, err = c.uninstall(ctx, false)
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		left, err = c.uninstall(ctx, true)
	}
	return left, err
}

func (c *Client) uninstall(ctx context.Context, noHooks bool) (left string, err error) {
	last, err := c.last()
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return "", nil
	} else if err != nil {
		return "", err
	}
	if last.Info.Status != common.StatusUninstalled {
		uninstall := action.NewUninstall(c.config)
		uninstall.KeepHistory, uninstall.DisableHooks, uninstall.Timeout = true, noHooks, c.options.Timeout
		uninstall.WaitStrategy, uninstall.WaitOptions = kube.StatusWatcherStrategy, waits(ctx)
		result, err := uninstall.Run(c.options.Name)
		if err != nil {
			if reason := c.logs.reason(); reason != "" && !strings.Contains(err.Error(), reason) {
				err = fmt.Errorf("%w: %s", err, reason)
			}
			return "", err
		}
		left = strings.TrimSpace(result.Info)
	}
	// Helm says uninstalled as well when it could not read an object, when it stopped waiting for objects, or when
	// the hooks after the deletion failed. It would not look at the objects again.
	if err := c.removeRest(ctx, last); err != nil {
		return "", err
	}
	return left, c.forget()
}

// removeRest deletes what is still there of an uninstalled release, and waits for it to be gone.
func (c *Client) removeRest(ctx context.Context, last *helmrelease.Release) error {
	rest, err := c.rest(last)
	if err != nil || len(rest) == 0 {
		return err
	}
	if _, errs := c.kube.Delete(rest, metav1.DeletePropagationBackground); len(errs) > 0 {
		return fmt.Errorf("deleting what is left: %w", errors.Join(errs...))
	}
	waiter, err := c.kube.GetWaiterWithOptions(kube.StatusWatcherStrategy, waits(ctx)...)
	if err != nil {
		return err
	}
	if err := waiter.WaitForDelete(rest, c.options.Timeout); err != nil {
		return fmt.Errorf("waiting for what is left to be gone: %w", err)
	}
	return nil
}

// rest are the objects of a release that are still there, without those that it is to leave.
func (c *Client) rest(last *helmrelease.Release) (rest kube.ResourceList, err error) {
	for _, text := range releaseutil.SplitManifests(last.Manifest) {
		built, err := c.kube.Build(strings.NewReader(text), false)
		if meta.IsNoMatchError(err) {
			continue // with the kind, its objects went
		} else if err != nil {
			return nil, fmt.Errorf("looking for what is left: %w", err)
		}
		for _, info := range built {
			wanted, err := meta.NewAccessor().Annotations(info.Object)
			if err != nil {
				return nil, fmt.Errorf("looking for what is left: %w", err)
			}
			policy := strings.TrimSpace(wanted[kube.ResourcePolicyAnno])
			if strings.EqualFold(policy, kube.KeepPolicy) {
				continue
			}
			object, err := resource.NewHelper(info.Client, info.Mapping).Get(info.Namespace, info.Name)
			if apierrors.IsNotFound(err) {
				continue
			} else if err != nil {
				return nil, fmt.Errorf("looking for what is left: %w", err)
			}
			has, err := meta.NewAccessor().Annotations(object)
			if err != nil {
				return nil, fmt.Errorf("looking for what is left: %w", err)
			}
			labels, err := meta.NewAccessor().Labels(object)
			if err != nil {
				return nil, fmt.Errorf("looking for what is left: %w", err)
			}
			// As Helm judges it: what somebody has taken over stays.
			if labels[managerLabel] == managerHelm &&
				has[ownerAnnotation] == last.Name && has[ownerNamespaceAnnotation] == last.Namespace {
				rest = append(rest, info)
			}
		}
	}
	return rest, nil
}

// forget deletes the revisions, the newest one last: if this is interrupted, it says that they can go.
func (c *Client) forget() error {
	all, err := c.history()
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b *helmrelease.Release) int { return a.Version - b.Version })
	for _, r := range all {
		if _, err := c.config.Releases.Delete(r.Name, r.Version); err != nil &&
			!errors.Is(err, driver.ErrReleaseNotFound) {
			return fmt.Errorf("deleting revision %d: %w", r.Version, err)
		}
	}
	return nil
}
