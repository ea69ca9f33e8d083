package codec

import (
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
)

// EventReader reads the events of a watch. internal/groupwatch reads frames of its own: it hands on
// their bytes, and needs no more of an object than its name and revision, of any kind and of CRDs.
type EventReader struct{ events streaming.Decoder }

// ReadEvents reads those of an answer's body.
func ReadEvents(info runtime.SerializerInfo, body io.ReadCloser) (EventReader, error) {
	if info.StreamSerializer == nil {
		return EventReader{}, notOfWatches(info)
	}
	return EventReader{streaming.NewDecoder(info.StreamSerializer.NewFrameReader(body),
		info.StreamSerializer.Serializer)}, nil
}

func notOfWatches(info runtime.SerializerInfo) error {
	return fmt.Errorf("%q is not a format of watches", info.MediaType)
}

// Next returns the next event, whose object is not decoded.
func (r EventReader) Next() (metav1.WatchEvent, error) {
	var e metav1.WatchEvent
	_, _, err := r.events.Decode(nil, &e)
	return e, err
}

// EventWriter writes the events of a watch.
type EventWriter struct {
	info   runtime.SerializerInfo
	events streaming.Encoder
}

// WriteEvents writes events into the body of an answer.
func WriteEvents(info runtime.SerializerInfo, body io.Writer) (EventWriter, error) {
	if info.StreamSerializer == nil {
		return EventWriter{}, notOfWatches(info)
	}
	return EventWriter{info, streaming.NewEncoder(info.StreamSerializer.NewFrameWriter(body),
		info.StreamSerializer.Serializer)}, nil
}

// Object writes an event of an object, whose kind is set.
func (w EventWriter) Object(kind watch.EventType, obj runtime.Object) error {
	raw, err := Encode(w.info, obj)
	if err != nil {
		return err
	}
	return w.Event(&metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: raw}})
}

// Event writes an event as it is.
func (w EventWriter) Event(e *metav1.WatchEvent) error { return w.events.Encode(e) }
