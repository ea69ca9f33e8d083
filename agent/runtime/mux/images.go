package mux

import (
	"errors"
	"fmt"

	"github.com/distribution/reference"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/a4s-io/a4s/internal/workload"
)

// toImage hands a call about one image to the runtime of the pod for which it
// is. The kubelet copies the annotations of the pod into the name of the image;
// the pod source has put the type, and the runtime if one was asked for, there.
func (rt *router) toImage(c *call) error {
	if c.method == runtimeapi.ImageService_PullImage_FullMethodName {
		if err := rt.mayPull(c.request); err != nil {
			return err
		}
	}
	s, err := rt.forImage(c)
	if err != nil {
		return err
	}
	return c.pass(s)
}

// mayPull refuses to pull what a4s carries. Sandboxes of all pods find it by its name, and whoever serves
// that name at a registry, or at a mirror, would run in them.
func (rt *router) mayPull(request []byte) error {
	var spec runtimeapi.ImageSpec
	if err := unmarshal(field(request, 1), &spec); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	named, err := reference.ParseDockerRef(spec.Image)
	if err == nil && rt.carried != "" && named.String() == rt.carried {
		return status.Errorf(codes.PermissionDenied, "the image %s is carried in a4s and is not pulled: "+
			"use it with imagePullPolicy Never or IfNotPresent", rt.carried)
	}
	return nil // the runtime says what is wrong with the name
}

// forImage returns the runtime for an image, and puts into the request what
// that understands.
func (rt *router) forImage(c *call) (*service, error) {
	var spec runtimeapi.ImageSpec
	if err := unmarshal(field(c.request, 1), &spec); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	asked := spec.RuntimeHandler
	if asked == "" {
		asked = spec.Annotations[workload.HandlerAnnotation]
	}
	s, handler, err := choose(c.all, asked, spec.Annotations)
	if err != nil || spec.RuntimeHandler == "" || handler == spec.RuntimeHandler {
		return s, err
	}
	spec.RuntimeHandler = handler
	data, err := marshal(&spec)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	c.request = replaceField(c.request, 1, data)
	return s, nil
}

// replaceField puts another value in place of a field.
func replaceField(message []byte, number protowire.Number, value []byte) []byte {
	out := protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), value)
	for len(message) > 0 {
		at, _, n := protowire.ConsumeField(message)
		if n < 0 {
			return append(out, message...) // for the runtime to refuse
		}
		if at != number {
			out = append(out, message[:n]...)
		}
		message = message[n:]
	}
	return out
}

// removeImage removes an image wherever it is: the kubelet names it by the id
// by which it is listed once. A handler or an annotation limits that.
func (rt *router) removeImage(c *call) error {
	var spec runtimeapi.ImageSpec
	if err := unmarshal(field(c.request, 1), &spec); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	_, typed := spec.Annotations[workload.Annotation]
	if len(c.all) == 1 || typed || spec.RuntimeHandler != "" {
		return rt.toImage(c)
	}
	var errs []error
	for _, s := range c.all {
		if s.Primary {
			continue
		}
		ctx, cancel := s.whileUp(c.ctx)
		_, err := c.invoke(ctx, s, c.request)
		cancel()
		switch code := status.Code(err); {
		case err == nil, code == codes.NotFound, code == codes.Unimplemented:
		case c.ctx.Err() == nil && (code == codes.Canceled || code == codes.Unavailable):
			// It is listed again, and so removed, when it is back.
		default:
			errs = append(errs, fmt.Errorf("runtime %q: %s", s.Name, status.Convert(err).Message()))
		}
	}
	answer, err := c.invoke(c.ctx, primary(c.all), c.request)
	if err != nil {
		return err
	}
	if err := errors.Join(errs...); err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	return c.stream.SendMsg(answer)
}
