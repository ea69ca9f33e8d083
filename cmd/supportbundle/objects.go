package supportbundle

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

const (
	// pageSize is how many objects one answer has, if they are not too large for it.
	pageSize = 100
	// maxAnswer bounds one answer: a page of the largest objects is smaller with pageSize/10.
	maxAnswer = 32 << 20
	// maxList is how much of one list is taken.
	maxList = 4 << 20
)

var errAnswerTooLarge = errors.New("the answer is too large")

// api is what is asked of the API.
type api interface {
	// Get answers a path with a query, as JSON. With a refusal there is what the server said.
	Get(ctx context.Context, path string, query url.Values) ([]byte, error)
}

// server is the API of a cluster.
type server struct {
	http *http.Client
	url  string
}

func newServer(cfg *rest.Config) (*server, error) {
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("the address of the server: %w", err)
	}
	return &server{client, strings.TrimSuffix(base.String(), "/")}, nil
}

// Get implements api.
func (s *server) Get(ctx context.Context, path string, query url.Values) ([]byte, error) {
	at := s.url + path
	if len(query) > 0 {
		at += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	answer, err := s.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, err
	case len(data) > maxAnswer:
		return nil, errAnswerTooLarge
	case answer.StatusCode != http.StatusOK:
		var status metav1.Status
		if json.Unmarshal(data, &status) == nil && status.Message != "" {
			return data, refusal(status.Message)
		}
		return data, refusal(answer.Status)
	}
	return data, nil
}

// refusal is an answer that is not what was asked for.
type refusal string

// Error implements error.
func (r refusal) Error() string { return string(r) }

// objects takes objects into a bundle.
type objects struct {
	api     api
	decoder runtime.Decoder
	reducer *reducer
	archive *archive
}

func newObjects(a api, out *archive, configMaps bool) (*objects, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	return &objects{api: a, decoder: decoderOf(scheme), reducer: newReducer(configMaps, out.scrub), archive: out}, nil
}

// take takes the objects of the cluster and of its own space, and those of a tenant if there is one.
func (o *objects) take(ctx context.Context, tenant string) {
	for _, c := range ofCluster() {
		o.list(ctx, "objects/cluster/"+c.resource+".json", c.root+"/"+c.resource)
	}
	o.space(ctx, space.System)
	if tenant == "" {
		return
	}
	// It says how the tenant is, and reading it makes no space.
	made, err := o.tenant(ctx, tenant)
	switch {
	case err != nil:
		o.archive.omit("tenant %s: %v", tenant, err)
	case !made:
		o.archive.omit("space of tenant %s: nobody has used it, and reading would make it", tenant)
	default:
		o.space(ctx, tenant)
		o.list(ctx, "objects/"+tenant+"/"+tenantapi.UsageResource+".json",
			"/tenants/"+tenant+"/api/v1/"+tenantapi.UsageResource)
	}
}

func (o *objects) space(ctx context.Context, tenant string) {
	for _, c := range ofSpace() {
		o.list(ctx, "objects/"+tenant+"/"+c.resource+".json", "/tenants/"+tenant+c.root+"/"+c.resource)
	}
}

// tenant takes a Tenant, and says whether its space is made.
func (o *objects) tenant(ctx context.Context, name string) (made bool, err error) {
	data, err := o.api.Get(ctx, "/api/v1/tenants/"+name, nil)
	if err != nil {
		return false, err
	}
	obj, err := o.decode(data)
	if err != nil {
		return false, err
	}
	t, ok := obj.(*tenantapi.Tenant)
	if !ok {
		return false, fmt.Errorf("the server answers with a %T", obj)
	}
	made = t.Made() // before the status is reduced
	var b bytes.Buffer
	if err := o.line(&b, t); err != nil {
		return false, err
	}
	o.archive.add("objects/"+name+"/tenant.json", b.Bytes())
	return made, nil
}

// list takes a list, an object in each line, as far as there is room and time.
func (o *objects) list(ctx context.Context, file, path string) {
	var b bytes.Buffer
	n, limit, next := 0, pageSize, ""
	for {
		page, err := o.page(ctx, path, limit, next)
		if errors.Is(err, errAnswerTooLarge) && limit > 1 {
			limit = max(1, limit/10)
			continue
		}
		if err != nil {
			o.archive.omit("%s: after %d objects: %v", file, n, err)
			break
		}
		full := false
		err = meta.EachListItem(page, func(obj runtime.Object) error {
			if before := b.Len(); !full {
				if err := o.line(&b, obj); err != nil {
					return err
				}
				if full = b.Len() > maxList; full {
					b.Truncate(before)
				} else {
					n++
				}
			}
			return nil
		})
		if err != nil {
			o.archive.omit("%s: after %d objects: %v", file, n, err)
			break
		}
		if next = continueOf(page); full || next == "" {
			if full {
				o.archive.omit("%s: all but the first %d objects, which take %d bytes", file, n, b.Len())
			}
			break
		}
	}
	o.archive.add(file, b.Bytes())
}

func (o *objects) page(ctx context.Context, path string, limit int, next string) (runtime.Object, error) {
	query := url.Values{"limit": {strconv.Itoa(limit)}}
	if next != "" {
		query.Set("continue", next)
	}
	data, err := o.api.Get(ctx, path, query)
	if err != nil {
		return nil, err
	}
	list, err := o.decode(data)
	if err != nil {
		return nil, err
	}
	if !meta.IsListType(list) {
		return nil, fmt.Errorf("the server answers with a %T", list)
	}
	return list, nil
}

// decode reads an answer. The error shows nothing of it.
func (o *objects) decode(data []byte) (runtime.Object, error) {
	obj, _, err := o.decoder.Decode(data, nil, nil)
	if err != nil {
		return nil, errors.New("the answer cannot be read")
	}
	return obj, nil
}

func continueOf(list runtime.Object) string {
	m, err := meta.ListAccessor(list)
	if err != nil {
		return ""
	}
	return m.GetContinue()
}

// line writes an object without what is not shown of it.
func (o *objects) line(b *bytes.Buffer, obj runtime.Object) error {
	o.reducer.reduce(obj)
	return json.NewEncoder(b).Encode(obj)
}
