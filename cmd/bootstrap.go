package cmd

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/a4s-io/a4s/internal/bootstrapapi"
	"github.com/a4s-io/a4s/internal/instance"
	"github.com/a4s-io/a4s/internal/problem"
)

func bootstrapCommand() *cli.Command {
	return group(&cli.Command{
		Name:  "bootstrap",
		Usage: "run pods on this node without an API server",
		Description: "Talks to the node on this machine, which has to run with --bootstrap-pod-api.\n" +
			"The pods run at once and are handed over to the API server when there is one.",
	},
		leaf(&cli.Command{
			Name:      "apply",
			ArgsUsage: "-f FILE [FLAGS]",
			Usage:     "run the pods in a file",
			Description: "The file holds pods in YAML or JSON; - is standard input. The name of the node is\n" +
				"appended to the name of each.",
			Action: action(applyBootstrapPods),
		},
			text("filename", "f", "", "`FILE` with pods; - is standard input"),
			outputFlag(),
			socketFlag(),
		),
		leaf(&cli.Command{
			Name:      "list",
			ArgsUsage: "[FLAGS]",
			Usage:     "list the pods, also those that the API server has",
			Action:    action(listBootstrapPods),
		},
			outputFlag(),
			socketFlag(),
		),
		leaf(&cli.Command{
			Name:        "delete",
			ArgsUsage:   "UID|NAME [FLAGS]",
			Usage:       "end a pod that the API server does not have yet",
			Description: "NAME is with or without the name of the node at its end.",
			Before:      takes(1, 1, "the UID or the name of a pod"),
			Action:      action(deleteBootstrapPod),
		},
			text("namespace", "n", "", "`NAMESPACE` of the pod, if others have the same name"),
			socketFlag(),
		),
	)
}

func socketFlag() cli.Flag {
	return text("socket", "", bootstrapapi.Socket(instance.RunDir), "socket of the API at `PATH`")
}

// bootstrapFormat returns what writes pods in the format of --output.
func bootstrapFormat(c *call) (func(*corev1.PodList) error, error) {
	format, err := outputFormat(c)
	if err != nil {
		return nil, err
	}
	if format == "json" {
		return func(list *corev1.PodList) error { return encode(c.out, list) }, nil
	}
	return func(list *corev1.PodList) error { return writePods(c.out, list.Items, time.Now()) }, nil
}

func applyBootstrapPods(c *call) error {
	write, err := bootstrapFormat(c)
	if err != nil {
		return err
	}
	name := c.String("filename")
	docs, err := readDocuments(name)
	if err != nil {
		return &problem.Input{Source: "--filename", Value: name, Err: problem.WithoutPath(err),
			Want: "a file with pods in YAML or JSON, or - for standard input"}
	}
	client := bootstrapapi.NewClient(c.String("socket"))
	list := &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
	var errs []error
	for i, doc := range docs {
		pod, err := client.Create(c.ctx, doc.data, doc.contentType)
		if err != nil {
			if len(docs) > 1 {
				err = fmt.Errorf("document %d of %s: %w", i+1, name, err)
			}
			errs = append(errs, err)
			continue
		}
		list.Items = append(list.Items, *pod)
	}
	if len(list.Items) > 0 {
		errs = append(errs, write(list))
	}
	return errors.Join(errs...)
}

// document is one of those in a file.
type document struct {
	data        []byte
	contentType string
}

var errEmpty = errors.New("there is nothing in it")

func readDocuments(name string) ([]document, error) {
	var data []byte
	var err error
	switch name {
	case "":
		return nil, errors.New("no value")
	case "-":
		data, err = io.ReadAll(os.Stdin)
	default:
		data, err = os.ReadFile(name)
	}
	if err != nil {
		return nil, err
	}
	if trimmed := bytes.TrimSpace(data); bytes.HasPrefix(trimmed, []byte("{")) {
		return []document{{trimmed, "application/json"}}, nil
	}
	var docs []document
	reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		doc, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if !isBlank(doc) {
			docs = append(docs, document{doc, "application/yaml"})
		}
	}
	if len(docs) == 0 {
		return nil, errEmpty
	}
	return docs, nil
}

// isBlank reports whether a document is nothing but comments.
func isBlank(doc []byte) bool {
	for line := range bytes.Lines(doc) {
		line = bytes.TrimSpace(line)
		if len(line) > 0 && line[0] != '#' && !bytes.Equal(line, []byte("---")) {
			return false
		}
	}
	return true
}

func listBootstrapPods(c *call) error {
	write, err := bootstrapFormat(c)
	if err != nil {
		return err
	}
	list, err := bootstrapapi.NewClient(c.String("socket")).List(c.ctx)
	if err != nil {
		return err
	}
	return write(list)
}

func deleteBootstrapPod(c *call) error {
	client := bootstrapapi.NewClient(c.String("socket"))
	list, err := client.List(c.ctx)
	if err != nil {
		return err
	}
	uid, err := findPod(list.Items, c.String("namespace"), c.arg(0))
	if err != nil {
		return err
	}
	pod, err := client.Delete(c.ctx, uid)
	if err != nil {
		return err
	}
	if pod.DeletionTimestamp != nil {
		_, err = problem.Show(c.out, "pod %s/%s is being ended\n", pod.Namespace, pod.Name)
	} else {
		_, err = problem.Show(c.out, "pod %s/%s is gone\n", pod.Namespace, pod.Name)
	}
	return err
}

// findPod returns the UID of the one pod that is meant.
func findPod(pods []corev1.Pod, namespace, given string) (types.UID, error) {
	var found []string
	var uid types.UID
	for i := range pods {
		p := &pods[i]
		if namespace != "" && p.Namespace != namespace {
			continue
		}
		if string(p.UID) == given {
			return p.UID, nil
		}
		if p.Name == given || p.Name == bootstrapapi.PodName(given, p.Spec.NodeName) {
			found, uid = append(found, p.Namespace+"/"+p.Name+" with the UID "+string(p.UID)), p.UID
		}
	}
	switch len(found) {
	case 1:
		return uid, nil
	case 0:
		return "", &problem.Input{Source: "pod", Value: given, Err: errors.New("there is no such bootstrap pod"),
			Want: "a UID or a name that a4s bootstrap list shows"}
	}
	return "", &problem.Input{Source: "pod", Value: given,
		Err: fmt.Errorf("there are several: %s", strings.Join(found, ", ")), Want: "a UID, or --namespace"}
}

func writePods(out io.Writer, pods []corev1.Pod, now time.Time) error {
	w := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0) // Flush reports errors
	fmt.Fprintln(w, "NAMESPACE\tNAME\tUID\tSTATE\tREADY\tRESTARTS\tPERSISTED\tAGE")
	for i := range pods {
		p := &pods[i]
		ready, restarts := 0, int32(0)
		for _, s := range p.Status.ContainerStatuses {
			restarts += s.RestartCount
			if s.Ready {
				ready++
			}
		}
		persisted := "no"
		if bootstrapapi.IsPersisted(p) {
			persisted = "yes"
		} else if why := p.Annotations[bootstrapapi.MessageAnnotation]; why != "" {
			persisted += ": " + firstLine(why)
		}
		problem.Show(w, "%s\t%s\t%s\t%s\t%d/%d\t%d\t%s\t%s\n", p.Namespace, p.Name, p.UID, podState(p), ready,
			len(p.Spec.Containers), restarts, persisted,
			duration.HumanDuration(now.Sub(p.CreationTimestamp.Time)))
	}
	return w.Flush()
}

// podState is the phase of a pod, or what is more interesting.
func podState(p *corev1.Pod) string {
	if p.DeletionTimestamp != nil {
		return "Terminating"
	}
	for _, s := range p.Status.ContainerStatuses {
		if s.State.Waiting != nil && s.State.Waiting.Reason != "" {
			return s.State.Waiting.Reason
		}
	}
	return string(p.Status.Phase)
}
