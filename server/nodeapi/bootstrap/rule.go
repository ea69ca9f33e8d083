package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/auth/nodeidentifier"

	"github.com/a4s-io/a4s/internal/bootstrapapi"
	"github.com/a4s-io/a4s/internal/space"
)

// offered reports whether a node asks to persist a pod of its own, and which node
// it is. It is so by the mark of the pod; whether the node may is another
// question.
func offered(ctx context.Context, u user.Info, pod *core.Pod) (node string, ok bool) {
	if pod.Annotations[bootstrapapi.SourceAnnotation] != bootstrapapi.Source {
		return "", false
	}
	return nodeOf(ctx, u)
}

// nodeOf is the node that a request comes from. Who impersonates a node is none.
func nodeOf(ctx context.Context, u user.Info) (string, bool) {
	if u == nil || Impersonated(ctx) || !space.IsSystem(space.TenantOf(u)) {
		return "", false
	}
	node, ok := nodeidentifier.NewDefaultNodeIdentifier().NodeIdentity(u)
	return node, ok && node != ""
}

// check holds an offered pod to the limits of mirror pods.
func check(node, namespace string, pod *core.Pod) error {
	if tenant, _ := space.SplitNamespace(namespace); !space.IsSystem(tenant) {
		return errors.New("a node persists pods of the system only, not those of a tenant")
	}
	if _, mirror := pod.Annotations[core.MirrorPodAnnotationKey]; mirror {
		return fmt.Errorf("the annotation %s is of mirror pods, which are not persisted", core.MirrorPodAnnotationKey)
	}
	if pod.Spec.NodeName != node {
		return fmt.Errorf("node %q persists pods with spec.nodeName set to itself only", node)
	}
	if len(pod.OwnerReferences) > 0 {
		return errors.New("a node gives the pods that it persists no owner: " +
			"one whose selector matches can adopt them later")
	}
	references, what, err := podutil.HasAPIObjectReference(pod)
	if err != nil {
		return fmt.Errorf("looking for what the pod refers to: %w", err)
	}
	if references {
		return fmt.Errorf("a node persists no pods that refer to %s: it ran them without an API server", what)
	}
	return nil
}

// canonicalUID is the one form of a UID that the API server itself makes.
var canonicalUID = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// readUID reads the UID that a pod asks to keep.
func readUID(value string) (types.UID, error) {
	if !canonicalUID.MatchString(value) || strings.Trim(value, "0-") == "" {
		return "", errors.New("must be a UUID in small letters, which is not zero")
	}
	return types.UID(value), nil
}

type impersonation struct{}

// Mark makes requests say whether they impersonate somebody, which upstream
// forgets: afterwards such a user looks as if they were that one. It has to see
// requests before authentication does.
func Mark(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		for name := range req.Header {
			if strings.HasPrefix(strings.ToLower(name), impersonatePrefix) {
				req = req.WithContext(context.WithValue(req.Context(), impersonation{}, true))
				break
			}
		}
		next.ServeHTTP(w, req)
	})
}

// impersonatePrefix begins each of the headers, in small letters.
var impersonatePrefix = strings.ToLower(strings.TrimSuffix(authenticationv1.ImpersonateUserHeader, "User"))

// Impersonated reports whether a request that Mark saw impersonates somebody.
func Impersonated(ctx context.Context) bool {
	marked, _ := ctx.Value(impersonation{}).(bool)
	return marked
}
