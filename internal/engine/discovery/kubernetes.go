package discovery

import (
	"context"
	"errors"
	"fmt"
	"maps"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/node"
)

// kubernetesPage is how many nodes are asked for at once.
const kubernetesPage = 500

// fromKubernetes lists the nodes of a cluster: that of the kubeconfig's context, or the one that this process runs in.
func fromKubernetes(ctx context.Context, source catalog.NodeSourceSpec) ([]node.Node, error) {
	config, err := kubernetesConfig(source.Context)
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fault.New(fault.Failed, "kubernetes_config", "the cluster cannot be reached as it is configured: %v", err)
	}
	var nodes []node.Node
	options := meta.ListOptions{LabelSelector: source.Selector, Limit: kubernetesPage}
	for {
		page, err := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "nodes"}).List(ctx, options)
		if err != nil {
			return nil, fault.New(fault.Failed, "kubernetes_refused", "the cluster does not list its nodes: %v", err).
				WithHint("the Runner's identity there needs the verb list on nodes")
		}
		for i := range page.Items {
			n, err := kubernetesNode(&page.Items[i])
			if err != nil {
				return nil, err
			}
			nodes = append(nodes, n)
		}
		if options.Continue = page.GetContinue(); options.Continue == "" || len(nodes) > maxNodes {
			return nodes, nil
		}
	}
}

func kubernetesConfig(name string) (*rest.Config, error) {
	if name == "" {
		config, err := rest.InClusterConfig()
		if err == nil || !errors.Is(err, rest.ErrNotInCluster) {
			return config, err
		}
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(),
		&clientcmd.ConfigOverrides{CurrentContext: name}).ClientConfig()
	if err != nil {
		return nil, fault.New(fault.Failed, "kubernetes_config", "no cluster is configured on the Runner's host: %v", err).
			WithHint("set KUBECONFIG for the Runner, write ~/.kube/config, or run the Runner in the cluster")
	}
	return config, nil
}

// kubernetesNode makes a Node of a node of a cluster: labels are attributes, roles are tags.
func kubernetesNode(item *unstructured.Unstructured) (node.Node, error) {
	var from core.Node
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, &from); err != nil {
		return node.Node{}, fmt.Errorf("read a node of the cluster: %w", err)
	}
	n := node.Node{Name: from.Name, OS: from.Status.NodeInfo.OperatingSystem, Arch: from.Status.NodeInfo.Architecture, Attributes: map[string]string{}}
	maps.Copy(n.Attributes, from.Labels)
	for _, want := range []core.NodeAddressType{core.NodeExternalIP, core.NodeInternalIP, core.NodeHostName} { // the last that is there wins but one that is closer
		for _, a := range from.Status.Addresses {
			if a.Type == want && (n.Address == "" || want == core.NodeInternalIP) {
				n.Address = a.Address
			}
		}
	}
	const role = "node-role.kubernetes.io/"
	for label := range from.Labels {
		if len(label) > len(role) && label[:len(role)] == role {
			n.Tags = append(n.Tags, label[len(role):])
		}
	}
	return n, nil
}
