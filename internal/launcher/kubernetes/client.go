package kubernetes

import (
	"context"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"legwork/internal/fault"
)

// object is a type of the API: *batch.Job for batch.Job.
type object[T any] interface {
	*T
	runtime.Object
}

// store reads and writes the objects of one resource: the few calls that the launcher makes. The vendor's ready-made clients come with the
// types of every API.
type store[T any, P object[T]] struct {
	client    rest.Interface
	codec     runtime.ParameterCodec
	resource  string
	namespace string // "" for what has none
}

func (s store[T, P]) create(ctx context.Context, o P, options meta.CreateOptions) (P, error) {
	var made T
	err := s.client.Post().NamespaceIfScoped(s.namespace, s.namespace != "").Resource(s.resource).VersionedParams(&options, s.codec).Body(o).Do(ctx).Into(P(&made))
	return P(&made), err
}

func (s store[T, P]) get(ctx context.Context, name string) (P, error) {
	var found T
	err := s.client.Get().NamespaceIfScoped(s.namespace, s.namespace != "").Resource(s.resource).Name(name).Do(ctx).Into(P(&found))
	return P(&found), err
}

func (s store[T, P]) delete(ctx context.Context, name string, options meta.DeleteOptions) error {
	return s.client.Delete().NamespaceIfScoped(s.namespace, s.namespace != "").Resource(s.resource).Name(name).Body(&options).Do(ctx).Error()
}

// maxPages bounds a list: an API that promises more without end must not hold a step up.
const maxPages = 200

// each lists objects page by page and passes each page to a function. L is batch.JobList for Jobs.
func each[L any, P interface {
	object[L]
	meta.ListInterface
}](ctx context.Context, client rest.Interface, codec runtime.ParameterCodec, namespace, resource string, options meta.ListOptions, take func(P)) error {
	for range maxPages {
		var page L
		if err := client.Get().Namespace(namespace).Resource(resource).VersionedParams(&options, codec).Do(ctx).Into(P(&page)); err != nil {
			return err
		}
		take(P(&page))
		if options.Continue = P(&page).GetContinue(); options.Continue == "" {
			return nil
		}
	}
	return fault.New(fault.TooLarge, "launcher_list", "the cluster lists more than %d pages of %s", maxPages, resource).
		WithHint("delete %s that ended in the namespace %s", resource, namespace)
}
