// rights: takes every right of a manifest's roles away in turn, and checks that the gateway misses exactly that one.
// First it checks that the roles are enough: with all of them no request is refused, and every status is written.
//
//	rights -manifest FILE -objects FILE -gateway PROGRAM -config FILE -log FILE
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	authorization "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	namespace = "rights"
	account   = "system:serviceaccount:tollgate:tollgate"
	// How long the gateway has for a refused request, or for all statuses.
	patience = 15 * time.Second
)

var (
	manifest = flag.String("manifest", "", "the manifest with the roles")
	objects  = flag.String("objects", "", "objects that need every right")
	program  = flag.String("gateway", "", "the gateway's program")
	settings = flag.String("config", "", "the gateway's configuration")
	logFile  = flag.String("log", "", "where the gateway's log goes")
)

// plurals has the names of kinds in paths.
var plurals = map[string]string{
	"Gateway": "gateways", "ListenerSet": "listenersets", "HTTPRoute": "httproutes", "GRPCRoute": "grpcroutes",
	"TLSRoute": "tlsroutes", "TCPRoute": "tcproutes", "UDPRoute": "udproutes", "BackendTLSPolicy": "backendtlspolicies",
	"TollgatePolicy": "tollgatepolicies",
	"Ingress":        "ingresses", "Service": "services", "ConfigMap": "configmaps", "Secret": "secrets", "Lease": "leases",
	"GatewayClass": "gatewayclasses",
}

// right is one right of a role.
type right struct {
	role                  string
	isCluster             bool
	rule                  int
	group, resource, verb string
}

func (r right) String() string {
	return fmt.Sprintf("%s %s of group %q (role %s)", r.verb, r.resource, r.group, r.role)
}

// refusal is the API server's text for a request without this right.
func (r right) refusal() string {
	return fmt.Sprintf("cannot %s resource %q in API group %q", r.verb, r.resource, r.group)
}

type bench struct {
	core    *kubernetes.Clientset
	dynamic dynamic.Interface
	objects []*unstructured.Unstructured
}

func main() {
	log.SetFlags(0)
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	must(err)
	config.QPS = -1
	b := &bench{core: kubernetes.NewForConfigOrDie(config), dynamic: dynamic.NewForConfigOrDie(config), objects: read(*objects)}
	clusterRoles, roles := readRoles()
	ctx := context.Background()
	_, err = b.core.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		log.Fatal(err)
	}
	defer func() {
		_ = b.core.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{})
	}()

	for _, role := range clusterRoles {
		b.setClusterRole(role.Name, role.Rules)
	}
	for _, role := range roles {
		b.setRole(role.Namespace, role.Name, role.Rules)
	}
	b.renew()
	gateway := start()
	missing := b.awaitStatuses()
	text := gateway.stop()
	if len(missing) > 0 || strings.Contains(text, "is forbidden") {
		log.Fatalf("the roles are not enough: no status of %v\n%s", missing, lines(text, "is forbidden"))
	}
	fmt.Println("the roles are enough: every status is written, and no request is refused")

	needless, count := []string{}, 0
	for _, role := range clusterRoles {
		each(role.Name, true, role.Rules, func(taken right, rules []rbac.PolicyRule) {
			b.setClusterRole(role.Name, rules)
			count++
			if !b.misses(taken, "") {
				needless = append(needless, taken.String())
			}
		})
		b.setClusterRole(role.Name, role.Rules)
	}
	for _, role := range roles {
		each(role.Name, false, role.Rules, func(taken right, rules []rbac.PolicyRule) {
			b.setRole(role.Namespace, role.Name, rules)
			count++
			if !b.misses(taken, role.Namespace) {
				needless = append(needless, taken.String())
			}
		})
		b.setRole(role.Namespace, role.Name, role.Rules)
	}
	fmt.Printf("%d rights taken away in turn: the gateway missed %d\n", count, count-len(needless))
	if len(needless) > 0 {
		log.Fatalf("needless rights:\n  %s", strings.Join(needless, "\n  "))
	}
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// read returns the objects of a file.
func read(file string) []*unstructured.Unstructured {
	open, err := os.Open(file)
	must(err)
	defer open.Close()
	var all []*unstructured.Unstructured
	for documents := yaml.NewYAMLOrJSONDecoder(open, 4096); ; {
		object := &unstructured.Unstructured{}
		if err := documents.Decode(&object.Object); errors.Is(err, io.EOF) {
			return all
		} else {
			must(err)
		}
		if len(object.Object) > 0 {
			all = append(all, object)
		}
	}
}

// readRoles returns the roles of the manifest.
func readRoles() (clusterRoles []rbac.ClusterRole, roles []rbac.Role) {
	convert := runtime.DefaultUnstructuredConverter.FromUnstructured
	for _, object := range read(*manifest) {
		switch object.GetKind() {
		case "ClusterRole":
			var role rbac.ClusterRole
			must(convert(object.Object, &role))
			clusterRoles = append(clusterRoles, role)
		case "Role":
			var role rbac.Role
			must(convert(object.Object, &role))
			roles = append(roles, role)
		}
	}
	if len(clusterRoles) == 0 || len(roles) == 0 {
		log.Fatalf("%s has no roles", *manifest)
	}
	return clusterRoles, roles
}

// each calls a function with every right, and the rules without it.
func each(role string, isCluster bool, rules []rbac.PolicyRule, call func(right, []rbac.PolicyRule)) {
	for number, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					call(right{role, isCluster, number, group, resource, verb}, without(rules, number, group, resource, verb))
				}
			}
		}
	}
}

// without returns rules in which one right of a rule is missing.
func without(rules []rbac.PolicyRule, number int, group, resource, verb string) []rbac.PolicyRule {
	var out []rbac.PolicyRule
	for at, rule := range rules {
		if at != number {
			out = append(out, rule)
			continue
		}
		for _, g := range rule.APIGroups {
			for _, r := range rule.Resources {
				verbs := slices.Clone(rule.Verbs)
				if g == group && r == resource {
					verbs = slices.DeleteFunc(verbs, func(v string) bool { return v == verb })
				}
				if len(verbs) > 0 {
					out = append(out, rbac.PolicyRule{APIGroups: []string{g}, Resources: []string{r}, ResourceNames: rule.ResourceNames, Verbs: verbs})
				}
			}
		}
	}
	return out
}

func (b *bench) setClusterRole(name string, rules []rbac.PolicyRule) {
	ctx, roles := context.Background(), b.core.RbacV1().ClusterRoles()
	role, err := roles.Get(ctx, name, metav1.GetOptions{})
	must(err)
	role.Rules = rules
	_, err = roles.Update(ctx, role, metav1.UpdateOptions{})
	must(err)
}

func (b *bench) setRole(namespace, name string, rules []rbac.PolicyRule) {
	ctx, roles := context.Background(), b.core.RbacV1().Roles(namespace)
	role, err := roles.Get(ctx, name, metav1.GetOptions{})
	must(err)
	role.Rules = rules
	_, err = roles.Update(ctx, role, metav1.UpdateOptions{})
	must(err)
}

// misses starts a gateway, and returns whether the API server refuses it a request for this right.
func (b *bench) misses(taken right, namespace string) bool {
	b.awaitDenied(taken, namespace)
	if taken.verb == "patch" || taken.verb == "create" {
		b.renew()
	}
	gateway := start()
	defer gateway.stop()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if strings.Contains(gateway.text(), taken.refusal()) {
			return true
		}
	}
	return false
}

// awaitDenied waits until the authorizer knows that a right is gone.
func (b *bench) awaitDenied(taken right, namespace string) {
	resource, subresource, _ := strings.Cut(taken.resource, "/")
	name := ""
	if resource == "leases" && taken.verb != "create" {
		name = "tollgate"
	}
	review := &authorization.SubjectAccessReview{Spec: authorization.SubjectAccessReviewSpec{
		User: account,
		ResourceAttributes: &authorization.ResourceAttributes{
			Namespace: namespace, Verb: taken.verb, Group: taken.group, Version: "*",
			Resource: resource, Subresource: subresource, Name: name,
		},
	}}
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		answer, err := b.core.AuthorizationV1().SubjectAccessReviews().Create(context.Background(), review, metav1.CreateOptions{})
		must(err)
		if !answer.Status.Allowed {
			return
		}
		if time.Now().After(end) {
			log.Fatalf("%s is still allowed: %s", taken, answer.Status.Reason)
		}
	}
}

// renew makes the objects again, without statuses, and removes the Lease.
func (b *bench) renew() {
	ctx := context.Background()
	zero := int64(0)
	leases := b.core.CoordinationV1().Leases("tollgate")
	if err := leases.Delete(ctx, "tollgate", metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		log.Fatal(err)
	}
	events := b.core.EventsV1().Events(namespace)
	must(events.DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &zero}, metav1.ListOptions{}))
	class := schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "gatewayclasses"}
	object, err := b.dynamic.Resource(class).Get(ctx, "tollgate", metav1.GetOptions{})
	must(err)
	unstructured.RemoveNestedField(object.Object, "status")
	object.SetResourceVersion("")
	object.SetUID("")
	object.SetManagedFields(nil)
	must(b.dynamic.Resource(class).Delete(ctx, "tollgate", metav1.DeleteOptions{}))
	for {
		_, err = b.dynamic.Resource(class).Create(ctx, object, metav1.CreateOptions{})
		if err == nil {
			break
		}
		if !apierrors.IsAlreadyExists(err) {
			log.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	for _, object := range b.objects {
		api := b.api(object)
		if err := api.Delete(ctx, object.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			log.Fatal(err)
		}
		for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
			_, err := api.Create(ctx, object.DeepCopy(), metav1.CreateOptions{})
			if err == nil {
				break
			}
			if !apierrors.IsAlreadyExists(err) || time.Now().After(end) {
				log.Fatal(err)
			}
		}
	}
}

func (b *bench) api(object *unstructured.Unstructured) dynamic.ResourceInterface {
	kind := object.GroupVersionKind()
	plural, known := plurals[kind.Kind]
	if !known {
		log.Fatalf("the name of kind %s in paths is not known", kind.Kind)
	}
	return b.dynamic.Resource(kind.GroupVersion().WithResource(plural)).Namespace(namespace)
}

// awaitStatuses waits until every object that has a status has one, and the event is there. It returns the objects that
// have none.
func (b *bench) awaitStatuses() []string {
	ctx := context.Background()
	var missing []string
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		missing = nil
		for _, object := range b.objects {
			if slices.Contains([]string{"Service", "ConfigMap", "Secret"}, object.GetKind()) {
				continue
			}
			now, err := b.api(object).Get(ctx, object.GetName(), metav1.GetOptions{})
			must(err)
			if !hasStatus(now) {
				missing = append(missing, object.GetKind())
			}
		}
		events, err := b.core.EventsV1().Events(namespace).List(ctx, metav1.ListOptions{})
		must(err)
		if len(events.Items) == 0 {
			missing = append(missing, "(no event)")
		}
		if len(missing) == 0 {
			return nil
		}
	}
	return missing
}

// hasStatus returns whether a controller has written a status.
func hasStatus(object *unstructured.Unstructured) bool {
	for _, field := range [][]string{{"parents"}, {"ancestors"}, {"listeners"}, {"loadBalancer", "ingress"}} {
		list, _, _ := unstructured.NestedSlice(object.Object, append([]string{"status"}, field...)...)
		if len(list) > 0 {
			return true
		}
	}
	return false
}

// process is a running gateway.
type process struct {
	cmd *exec.Cmd
}

func start() *process {
	file, err := os.Create(*logFile)
	must(err)
	defer file.Close()
	cmd := exec.Command(*program, "run", *settings)
	cmd.Stdout, cmd.Stderr = file, file
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(cmd.Start())
	return &process{cmd}
}

func (p *process) text() string {
	text, err := os.ReadFile(*logFile)
	must(err)
	return string(text)
}

// stop ends the gateway, and returns what it said.
func (p *process) stop() string {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	return p.text()
}

// lines returns the lines of a text that contain something.
func lines(text, with string) string {
	var out bytes.Buffer
	for _, line := range strings.Split(text, "\n") {
		if strings.Contains(line, with) {
			fmt.Fprintln(&out, line)
		}
	}
	return out.String()
}
