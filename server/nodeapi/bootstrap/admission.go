package bootstrap

import (
	"context"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/plugin/pkg/admission/noderestriction"
	"k8s.io/kubernetes/plugin/pkg/admission/serviceaccount"

	"github.com/a4s-io/a4s/server/controlplane/apiserver"
)

// Admission adds the rule to what else stands in the seam of admission.
func (p *Pods) Admission(inner apiserver.Admission) apiserver.Admission {
	return &seam{Admission: inner, pods: p}
}

type seam struct {
	apiserver.Admission
	pods *Pods
}

// Informers implements apiserver.Admission.
func (s *seam) Informers(
	loopback *rest.Config, authz authorizer.Authorizer, f informers.SharedInformerFactory,
) (informers.SharedInformerFactory, error) {
	s.pods.know(f.Core().V1().Pods())
	return s.Admission.Informers(loopback, authz, f)
}

// Decorate implements apiserver.Admission.
func (s *seam) Decorate(handler admission.Interface, name string) admission.Interface {
	handler = s.Admission.Decorate(handler, name)
	if name == noderestriction.PluginName || name == serviceaccount.PluginName {
		return &plugin{Interface: handler}
	}
	return handler
}

// plugin judges the pods that nodes offer by the rule, and leaves all else to
// the one of upstream, which would take them for mirror pods gone wrong, or
// give them a service account and change what runs already.
type plugin struct{ admission.Interface }

// Admit implements admission.MutationInterface.
func (p *plugin) Admit(ctx context.Context, attr admission.Attributes, o admission.ObjectInterfaces) error {
	if ours, err := judge(ctx, attr); ours {
		return err
	}
	if m, ok := p.Interface.(admission.MutationInterface); ok {
		return m.Admit(ctx, attr, o)
	}
	return nil
}

// Validate implements admission.ValidationInterface: what webhooks have made
// of a pod counts, too.
func (p *plugin) Validate(ctx context.Context, attr admission.Attributes, o admission.ObjectInterfaces) error {
	if ours, err := judge(ctx, attr); ours {
		return err
	}
	if v, ok := p.Interface.(admission.ValidationInterface); ok {
		return v.Validate(ctx, attr, o)
	}
	return nil
}

func judge(ctx context.Context, attr admission.Attributes) (ours bool, err error) {
	if attr.GetOperation() != admission.Create || attr.GetSubresource() != "" ||
		attr.GetResource().GroupResource() != core.Resource("pods") {
		return false, nil
	}
	pod, ok := attr.GetObject().(*core.Pod)
	if !ok {
		return false, nil
	}
	node, ok := offered(ctx, attr.GetUserInfo(), pod)
	if !ok {
		return false, nil
	}
	if err := check(node, attr.GetNamespace(), pod); err != nil {
		return true, admission.NewForbidden(attr, err)
	}
	return true, nil
}
