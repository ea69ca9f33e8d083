package vm

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// imageService hands calls on to containerd, whose image store the virtual
// machines share with the containers of the node.
type imageService struct {
	runtimeapi.UnimplementedImageServiceServer
	containerd runtimeapi.ImageServiceClient
	// removed learns of images that may be gone.
	removed func()
}

// own takes the runtime handler out of an image spec: containerd has no
// handler of that name, and images are the same for all.
func own(spec *runtimeapi.ImageSpec) {
	if spec != nil {
		spec.RuntimeHandler = ""
	}
}

// ListImages implements the CRI.
func (s *imageService) ListImages(
	ctx context.Context, r *runtimeapi.ListImagesRequest,
) (*runtimeapi.ListImagesResponse, error) {
	own(r.GetFilter().GetImage())
	return s.containerd.ListImages(ctx, r)
}

// StreamImages implements the CRI.
func (s *imageService) StreamImages(
	r *runtimeapi.StreamImagesRequest, stream grpc.ServerStreamingServer[runtimeapi.StreamImagesResponse],
) error {
	own(r.GetFilter().GetImage())
	from, err := s.containerd.StreamImages(stream.Context(), r)
	if err != nil {
		return err
	}
	for {
		answer, err := from.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := stream.Send(answer); err != nil {
			return err
		}
	}
}

// ImageStatus implements the CRI.
func (s *imageService) ImageStatus(
	ctx context.Context, r *runtimeapi.ImageStatusRequest,
) (*runtimeapi.ImageStatusResponse, error) {
	own(r.GetImage())
	return s.containerd.ImageStatus(ctx, r)
}

// PullImage implements the CRI.
func (s *imageService) PullImage(
	ctx context.Context, r *runtimeapi.PullImageRequest,
) (*runtimeapi.PullImageResponse, error) {
	own(r.GetImage())
	return s.containerd.PullImage(ctx, r)
}

// RemoveImage implements the CRI.
func (s *imageService) RemoveImage(
	ctx context.Context, r *runtimeapi.RemoveImageRequest,
) (*runtimeapi.RemoveImageResponse, error) {
	own(r.GetImage())
	answer, err := s.containerd.RemoveImage(ctx, r)
	if err == nil {
		s.removed()
	}
	return answer, err
}

// ImageFsInfo implements the CRI.
func (s *imageService) ImageFsInfo(
	ctx context.Context, r *runtimeapi.ImageFsInfoRequest,
) (*runtimeapi.ImageFsInfoResponse, error) {
	return s.containerd.ImageFsInfo(ctx, r)
}
