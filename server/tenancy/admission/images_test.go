package admission

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	core "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/pod-security-admission/api"

	"github.com/a4s-io/a4s/server/tenancy/tenants/allowances"
)

// TestImages: names are read as nodes read them, a list is one of whole parts of a path, and
// what a pod had stays.
func TestImages(t *testing.T) {
	allowed := []string{"registry.example.com/team", "docker.io/library/nginx", "registry.example.com:5000"}
	const digest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	for image, want := range map[string]string{
		"registry.example.com/team/app:1":                "",
		"registry.example.com/team:1":                    "",
		"registry.example.com/team/a/b@" + digest:        "",
		"registry.example.com/team/app:1@" + digest:      "",
		"registry.example.com:5000/anything":             "",
		"nginx":                                          "",
		"nginx:1":                                        "",
		"index.docker.io/nginx":                          "",
		"docker.io/nginx@" + digest:                      "",
		"registry.example.com/team-evil/app":             "registry.example.com/team-evil/app",
		"registry.example.com/app":                       "this space has images of registry.example.com/team,",
		"registry.example.com:443/team/app":              "an image of",
		"REGISTRY.example.com/team/app":                  "an image of",
		"evil.example.com/registry.example.com/team/app": "an image of",
		"registry.example.com.evil.example.com/team/app": "an image of",
		"registry.example.com/team/../other/app":         "not the name of an image",
		"registry.example.com/team@evil.example.com/app": "not the name of an image",
		"https://registry.example.com/team/app":          "not the name of an image",
		"team/app":                                       "docker.io/team/app",
		"busybox":                                        "docker.io/library/busybox",
		"nginx/nginx":                                    "docker.io/nginx/nginx",
		digest:                                           "a digest alone",
		digest[:20]:                                      "a digest alone",
		strings.TrimPrefix(digest, "sha256:"):            "not the name of an image",
		"":                                               "not the name of an image",
		" nginx":                                         "not the name of an image",
		"nginx\nregistry.example.com/team":               "not the name of an image",
		"library/nginx/../../team/app":                   "not the name of an image",
		"docker.io/library/nginx-evil":                   "an image of docker.io/library/nginx-evil",
		"registry.example.com/team/app:" + digest[7:]:    "",
		"registry.example.com:5000":                      "docker.io/library/registry.example.com",
		"registry.example.com:team/app":                  "not the name of an image",
		"localhost/registry.example.com/team":            "an image of localhost/",
		"docker.io:443/library/nginx":                    "an image of docker.io:443",
		"registry-1.docker.io/library/nginx":             "an image of registry-1.docker.io",
		"registry.example.com/team/app?x=y":              "not the name of an image",
		"registry.example.com//team/app":                 "not the name of an image",
		"registry.example.com/team%2f..%2fother/app":     "not the name of an image",
		"registry.example.com/team/app:latest:latest":    "not the name of an image",
		"registry.example.com/team/app@sha256:short":     "not the name of an image",
		"user:password@registry.example.com/team/app":    "not the name of an image",
	} {
		g := placesGuard(t, placed{images: allowed, annotated: annotated{
			allowances.PodSecurity: string(api.LevelPrivileged)}})
		pod := &core.Pod{Spec: core.PodSpec{Containers: []core.Container{{Image: "nginx"}}}}
		for at, put := range map[string]func(*core.PodSpec){
			"containers[1].image": func(s *core.PodSpec) {
				s.Containers = append(s.Containers, core.Container{Image: image})
			},
			"initContainers[0].image": func(s *core.PodSpec) {
				s.InitContainers = []core.Container{{Image: image}}
			},
			"ephemeralContainers[0].image": func(s *core.PodSpec) {
				s.EphemeralContainers = []core.EphemeralContainer{
					{EphemeralContainerCommon: core.EphemeralContainerCommon{Image: image}}}
			},
			"volumes[0].image.reference": func(s *core.PodSpec) {
				s.Volumes = []core.Volume{{VolumeSource: core.VolumeSource{
					Image: &core.ImageVolumeSource{Reference: image}}}}
			},
		} {
			is := pod.DeepCopy()
			put(&is.Spec)
			for what, old := range map[string]*core.Pod{"new": nil, "changed": pod} {
				err := g.checkPod(t.Context(), "t1", is, old)
				if (err == nil) != (want == "") || err != nil && !(strings.Contains(err.Error(), want) &&
					strings.Contains(err.Error(), at)) {
					t.Errorf("%q, %s in %s: %v, want %q", image, what, at, err, want)
				}
			}
			was := is.DeepCopy()
			was.Spec.SchedulingGates = []core.PodSchedulingGate{{Name: "g"}}
			if err := g.checkPod(t.Context(), "t1", is, was); err != nil {
				t.Errorf("%q, which the pod had: %v", image, err)
			}
			if err := g.checkPod(t.Context(), "t2", is, nil); err != nil {
				t.Errorf("%q in a space without a list: %v", image, err)
			}
		}
	}
}

// TestImagesOfPodsAreAllFound: a new field of Kubernetes by the name of an image, or a new
// list of containers, fails until imagesOf knows it.
func TestImagesOfPodsAreAllFound(t *testing.T) {
	var found []string
	seen := map[reflect.Type]bool{}
	var walk func(of reflect.Type, path string)
	walk = func(of reflect.Type, path string) {
		for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice || of.Kind() == reflect.Map {
			of = of.Elem()
		}
		if of.Kind() != reflect.Struct || seen[of] && strings.Count(path, ".") > 6 {
			return
		}
		seen[of] = true
		for i := range of.NumField() {
			f := of.Field(i)
			at := path + "." + f.Name
			isImage := strings.Contains(strings.ToLower(f.Name), "image") && f.Name != "ImagePullPolicy" ||
				of == reflect.TypeFor[corev1.ImageVolumeSource]() && f.Name == "Reference"
			if isImage && f.Type.Kind() == reflect.String {
				found = append(found, strings.TrimPrefix(at, "."))
			}
			walk(f.Type, at)
		}
	}
	walk(reflect.TypeFor[corev1.PodSpec](), "")
	// A pod names an image of RBD, which is a disk, and VolumeClaimTemplates have none.
	known := map[string]bool{"Volumes.VolumeSource.RBD.RBDImage": true, "Volumes.VolumeSource.Image.Reference": true,
		"InitContainers.Image": true, "Containers.Image": true,
		"EphemeralContainers.EphemeralContainerCommon.Image": true}
	for _, path := range found {
		if !known[path] {
			t.Errorf("%s may name an image: decide it in imagesOf", path)
		}
		delete(known, path)
	}
	for path := range known {
		t.Errorf("%s is not there any more", path)
	}
}
