package origin

import (
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/a4s-io/a4s/agent/origin/codec"
)

// changeAnswer decodes the answer to r once, changes it, and encodes it again. What the change
// leaves as it was passes byte by byte. l are events of this node for a watch, nil for none.
func changeAnswer(r *Request, resp *http.Response, c change, l *localWatch) error {
	ctx := r.HTTP.Context()
	if r.Verb != VerbWatch {
		return codec.Change(resp, func(obj runtime.Object) (bool, error) { return c.object(ctx, obj) })
	}
	info, err := codec.Serializer(resp.Header.Get("Content-Type"))
	if err != nil {
		return err
	}
	body, err := newWatchBody(ctx, watchOptions{info: info, server: resp.Body, ofServer: c, local: l})
	if err == nil {
		resp.Body = body
	}
	return err
}

// answer is what this node answers in place of a server.
type answer struct {
	code   int
	object runtime.Object
	watch  *localWatch // nil: the answer is object
}

func found(obj runtime.Object) *answer { return &answer{code: http.StatusOK, object: obj} }

// refusal answers with a metav1.Status.
func refusal(code int32, reason metav1.StatusReason, message string) *answer {
	return &answer{code: int(code), object: codec.Failure(code, reason, message)}
}

// response encodes the answer to r.
func (a *answer) response(r *Request) (*http.Response, error) {
	if r.HTTP.Body != nil {
		_ = r.HTTP.Body.Close() // a transport has to; nothing was read that could be lost
	}
	if a.watch == nil {
		return codec.Answer(r.HTTP, r.Accept, a.code, a.object)
	}
	info, err := codec.Serializer(r.Accept)
	if err != nil {
		return nil, err
	}
	resp := codec.Response(r.HTTP, a.code, info.MediaType+";stream=watch")
	resp.Body, err = newWatchBody(r.HTTP.Context(), watchOptions{info: info, local: a.watch})
	return resp, err
}
