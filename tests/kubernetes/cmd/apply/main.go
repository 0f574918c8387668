// apply: applies YAML documents by server-side apply, and waits for conditions. It stands in for kubectl, which a
// machine may not have.
//
//	apply -f FILE...                      applies every document of the files, or those of the kinds in -kinds
//	apply -token NAMESPACE/NAME           prints a token of a service account
//	apply -wait GROUP/VERSION/PLURAL[/NAMESPACE]/NAME=CONDITION    waits until the condition holds
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"slices"
	"strings"
	"time"

	authentication "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
)

var (
	kinds    string
	patience = flag.Duration("patience", 60*time.Second, "how long to wait")
)

func main() {
	kubeconfig := flag.String("kubeconfig", os.Getenv("KUBECONFIG"), "kubeconfig")
	var files, waits []string
	flag.Func("f", "a file to apply", func(s string) error { files = append(files, s); return nil })
	flag.StringVar(&kinds, "kinds", "", "the kinds to apply, separated by commas; empty: all")
	account := flag.String("token", "", "a service account whose token is printed")
	flag.Func("wait", "an object and a condition to wait for", func(s string) error { waits = append(waits, s); return nil })
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	must(err)
	config.QPS, config.Burst = 200, 400
	client := dynamic.NewForConfigOrDie(config)
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discovery.NewDiscoveryClientForConfigOrDie(config)))
	ctx, cancel := context.WithTimeout(context.Background(), *patience)
	defer cancel()
	for _, file := range files {
		must(apply(ctx, client, mapper, file))
	}
	if namespace, name, found := strings.Cut(*account, "/"); found {
		hours := int64(12 * 3600)
		request := &authentication.TokenRequest{Spec: authentication.TokenRequestSpec{ExpirationSeconds: &hours}}
		accounts := kubernetes.NewForConfigOrDie(config).CoreV1().ServiceAccounts(namespace)
		answer, err := accounts.CreateToken(ctx, name, request, metav1.CreateOptions{})
		must(err)
		fmt.Println(answer.Status.Token)
	}
	for _, wait := range waits {
		must(await(ctx, client, wait))
	}
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func apply(ctx context.Context, client dynamic.Interface, mapper *restmapper.DeferredDiscoveryRESTMapper, file string) error {
	open, err := os.Open(file)
	if err != nil {
		return err
	}
	defer open.Close()
	documents := yaml.NewYAMLOrJSONDecoder(open, 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := documents.Decode(&object.Object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if len(object.Object) == 0 || kinds != "" && !slices.Contains(strings.Split(kinds, ","), object.GetKind()) {
			continue
		}
		kind := object.GroupVersionKind()
		mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		for meta.IsNoMatchError(err) && ctx.Err() == nil { // a definition that is not served yet
			time.Sleep(100 * time.Millisecond)
			mapper.Reset()
			mapping, err = mapper.RESTMapping(kind.GroupKind(), kind.Version)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		var resource dynamic.ResourceInterface = client.Resource(mapping.Resource)
		if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
			namespace := object.GetNamespace()
			if namespace == "" {
				namespace = "default"
			}
			resource = client.Resource(mapping.Resource).Namespace(namespace)
		}
		_, err = resource.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: "tests", Force: true})
		if err != nil {
			return fmt.Errorf("%s: %s %s: %w", file, kind.Kind, object.GetName(), err)
		}
	}
}

func await(ctx context.Context, client dynamic.Interface, wait string) error {
	path, condition, _ := strings.Cut(wait, "=")
	parts := strings.Split(path, "/")
	if len(parts) < 4 {
		return fmt.Errorf("%s is not GROUP/VERSION/PLURAL/NAME=CONDITION", wait)
	}
	kind := client.Resource(schema.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]})
	var resource dynamic.ResourceInterface = kind
	if len(parts) > 4 {
		resource = kind.Namespace(parts[3])
	}
	for ctx.Err() == nil {
		if object, err := resource.Get(ctx, parts[len(parts)-1], metav1.GetOptions{}); err == nil {
			conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
			for _, one := range conditions {
				if it, ok := one.(map[string]any); ok && it["type"] == condition && it["status"] == "True" {
					return nil
				}
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("%s did not hold within %s", wait, *patience)
}
