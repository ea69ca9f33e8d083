package serving

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/a4s-io/a4s/server/tenancy/crd"
)

// serving is what a watch was begun with.
type serving struct {
	source crd.Source
	uid    types.UID
}

type watchedBy struct {
	tenant string
	r      schema.GroupResource
}

// watches are the running watches of custom resources of tenants.
type watches struct {
	serving func(tenant string, r schema.GroupResource) (crd.Source, *apiextensionsv1.CustomResourceDefinition)

	mu      sync.Mutex
	running map[watchedBy]map[*running]struct{}
}

type running struct {
	serving serving
	cut     context.CancelFunc
}

func (w *watches) now(by watchedBy) serving {
	source, crd := w.serving(by.tenant, by.r)
	if crd == nil {
		return serving{}
	}
	return serving{source, crd.UID}
}

// serve serves a watch until it ends or another CRD serves the tenant.
func (w *watches) serve(
	rw http.ResponseWriter, req *http.Request, tenant string, r schema.GroupResource,
	serve func(http.ResponseWriter, *http.Request),
) {
	by := watchedBy{tenant, r}
	ctx, cut := context.WithCancel(req.Context())
	defer cut()
	this := &running{serving: w.now(by), cut: cut}
	w.add(by, this)
	defer w.remove(by, this)
	if w.now(by) != this.serving {
		cut() // it has changed before anybody could know of this watch
	}
	serve(rw, req.WithContext(ctx))
	// What it watched can end before it is cut.
	if req.Context().Err() == nil && (ctx.Err() != nil || w.now(by) != this.serving) {
		expire(rw)
	}
}

func (w *watches) add(by watchedBy, this *running) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running == nil {
		w.running = map[watchedBy]map[*running]struct{}{}
	}
	if w.running[by] == nil {
		w.running[by] = map[*running]struct{}{}
	}
	w.running[by][this] = struct{}{}
}

func (w *watches) remove(by watchedBy, this *running) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.running[by], this)
	if len(w.running[by]) == 0 {
		delete(w.running, by)
	}
}

// changed cuts the watches that another CRD would serve now.
func (w *watches) changed(tenant string, r schema.GroupResource) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for by, all := range w.running {
		if tenant != "" && by.tenant != tenant || r != (schema.GroupResource{}) && by.r != r {
			continue
		}
		now := w.now(by)
		for this := range all {
			if this.serving != now {
				this.cut()
			}
		}
	}
}

// servedByAnother is why a client has to begin anew with what a tenant defined.
const servedByAnother = "another definition serves this resource now"

// expire ends a watch with the event that has clients list again.
func expire(w http.ResponseWriter) {
	status := apierrors.NewResourceExpired(servedByAnother).Status()
	status.APIVersion, status.Kind = "v1", "Status"
	var event []byte
	switch media := w.Header().Get("Content-Type"); {
	case strings.HasPrefix(media, "application/json"):
		raw, err := json.Marshal(&status)
		if err != nil {
			return
		}
		if event, err = json.Marshal(&metav1.WatchEvent{Type: string(watch.Error),
			Object: runtime.RawExtension{Raw: raw}}); err != nil {
			return
		}
		event = append(event, '\n')
	case strings.HasPrefix(media, "application/vnd.kubernetes.protobuf"):
		raw, err := status.Marshal()
		if err != nil {
			return
		}
		object, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "Status"},
			Raw: raw}).Marshal()
		if err != nil {
			return
		}
		encoded, err := (&metav1.WatchEvent{Type: string(watch.Error),
			Object: runtime.RawExtension{Raw: append([]byte("k8s\x00"), object...)}}).Marshal()
		if err != nil {
			return
		}
		// it is short
		event = append(binary.BigEndian.AppendUint32(nil, uint32(len(encoded))), encoded...) //nolint:gosec
	default:
		return // it had not begun
	}
	if _, err := w.Write(event); err == nil {
		http.NewResponseController(w).Flush() //nolint:errcheck // the client is gone
	}
}
