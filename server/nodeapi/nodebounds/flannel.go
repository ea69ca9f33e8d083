package nodebounds

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/workload"
)

// What flannel, which runs as the node, keeps on Nodes. All other nodes send what is for the
// pods of this one to the address, and take the hardware address for that of its tunnel.
const (
	flannel       = "flannel.alpha.coreos.com/"
	flannelManage = flannel + "kube-subnet-manager"
	flannelType   = flannel + "backend-type"
	flannelIP     = flannel + "public-ip"
	flannelIP6    = flannel + "public-ipv6"
	flannelData   = flannel + "backend-data"
	flannelData6  = flannel + "backend-v6-data"
	// overwrite ends the annotations that administrators set in place of the address.
	overwrite = "-overwrite"
)

// maxData bounds what a node writes of its tunnel.
const maxData = 512

// annotationRules are the annotations that a node may change; those without a rule as it
// likes, because nobody but the node goes by them.
func annotationRules() map[string]func(c *change, key, value string) error {
	return map[string]func(c *change, key, value string) error{
		// The kubelet.
		"volumes.kubernetes.io/controller-managed-attach-detach": nil,
		"volumes.kubernetes.io/keep-terminated-pod-volumes":      nil,
		"csi.volume.kubernetes.io/nodeid":                        nil,
		// The agent.
		workload.PrimaryAnnotation: nil,
		pki.NodeLife:               lifeMark,
		flannelManage:              oneOf("true"), flannelType: oneOf("vxlan", "host-gw"),
		flannelIP: publicIP, flannelIP6: publicIP, flannelData: tunnelData, flannelData6: tunnelData,
	}
}

// nodesOwn reports whether an annotation is one that a node may say anything of.
func nodesOwn(key string) bool {
	_, ok := annotationRules()[key]
	return ok && key != pki.NodeLife
}

// bringsBack reports whether a node that comes back says an annotation that somebody made on
// its Node before. What programs of the cluster go by they write again.
func (b *Bounds) bringsBack(c *change, key string) (bool, error) {
	domain, _, found := strings.Cut(key, "/")
	for _, reserved := range []string{"kubernetes.io", "k8s.io", "coreos.com", "a4s.io"} {
		if found && (domain == reserved || strings.HasSuffix(domain, "."+reserved)) {
			return false, nil
		}
	}
	if !c.creates {
		return false, nil
	}
	return b.returns(c.now.Name)
}

// annotations holds a node to the rules.
func annotations(c *change) error {
	rules := annotationRules()
	for key, value := range c.now.Annotations {
		if before, had := c.was.Annotations[key]; had && before == value {
			continue
		}
		judge, known := rules[key]
		if !known {
			may, err := c.b.bringsBack(c, key)
			if err != nil {
				return err
			}
			if may {
				continue
			}
			return fmt.Errorf("the annotation %s is not for a node to set", key)
		}
		if judge == nil {
			continue
		}
		if err := judge(c, key, value); err != nil {
			return fmt.Errorf("the annotation %s: %w", key, err)
		}
	}
	for key := range c.was.Annotations {
		if _, has := c.now.Annotations[key]; has {
			continue
		}
		// The kubelet takes off what a cloud provider's left.
		if !nodesOwn(key) && key != "alpha.kubernetes.io/provided-node-ip" {
			return fmt.Errorf("the annotation %s is not for a node to remove", key)
		}
	}
	return nil
}

// lifeMark is what the storage wrote when the Node was made.
func lifeMark(c *change, _, value string) error {
	if c.creates && c.b.o.Mark != nil {
		if mark, there := c.b.o.Mark(c.now.Name); there && mark == value {
			return nil
		}
	}
	return errors.New("the server writes it")
}

func oneOf(values ...string) func(*change, string, string) error {
	return func(_ *change, _, value string) error {
		if slices.Contains(values, value) {
			return nil
		}
		return fmt.Errorf("%q is not one of %s", value, strings.Join(values, ", "))
	}
}

// publicIP is where the other nodes send what is for the pods of this one.
func publicIP(c *change, key, value string) error {
	ip, err := netip.ParseAddr(value)
	if err != nil {
		return errors.New("that is no address")
	}
	if over := c.was.Annotations[key+overwrite]; over != "" && over == value {
		return nil
	}
	if err := c.b.known(); err != nil {
		return err
	}
	joined, known, err := c.b.joined(c.ctx, c.now.Name)
	if err != nil {
		return err
	}
	ok := slices.Contains(joined, ip.Unmap())
	if !known {
		if ok, err = c.b.nobodys(ip.Unmap(), c.now.Name); err != nil {
			return err
		}
	}
	if !ok {
		return fmt.Errorf("%s is not an address that this node joined with; start its agent again with its token, or "+
			"have an administrator set %s%s", ip, key, overwrite)
	}
	return nil
}

// tunnelData names the hardware address of the tunnel. With that of another node, packets for
// the pods of that one would come here.
func tunnelData(c *change, _, value string) error {
	mac, err := hardwareAddress(value)
	if err != nil || mac == "" {
		return err
	}
	if err := c.b.known(); err != nil {
		return err
	}
	all, err := c.b.nodes.List(labels.Everything())
	if err != nil {
		return err
	}
	for _, n := range all {
		for _, key := range []string{flannelData, flannelData6} {
			other, err := hardwareAddress(n.Annotations[key])
			if n.Name != c.now.Name && err == nil && other == mac {
				return errors.New("the hardware address is that of the tunnel of another node")
			}
		}
	}
	return nil
}

// hardwareAddress reads that of a tunnel, "" for none.
func hardwareAddress(data string) (string, error) {
	if data == "" || data == "null" {
		return "", nil
	}
	if len(data) > maxData {
		return "", fmt.Errorf("it has %d bytes, at most %d are possible", len(data), maxData)
	}
	var tunnel struct{ VtepMAC string }
	if err := json.Unmarshal([]byte(data), &tunnel); err != nil {
		return "", fmt.Errorf("it is not what flannel writes: %w", err)
	}
	mac, err := net.ParseMAC(tunnel.VtepMAC)
	if err != nil || len(mac) != 6 {
		return "", errors.New("it is not what flannel writes: there is no hardware address in it")
	}
	return mac.String(), nil
}
