package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"sort"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

var (
	rate        = flag.Int("rate", 1000, "requests per second during a rolling restart")
	connections = flag.Int("connections", 50, "connections of the clients")
)

// roll measures what clients see while pods are replaced.
func roll(c *cluster) {
	failed := 0
	for _, kind := range []struct {
		name, title string
		change      func(*corev1.PodSpec)
	}{
		{"abrupt", "pods that end at once at SIGTERM", func(*corev1.PodSpec) {}},
		{"graceful", "pods with readiness and preStop", func(spec *corev1.PodSpec) {
			port := intstr.FromInt32(3000)
			container := &spec.Containers[0]
			container.ReadinessProbe = &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: port}}}
			container.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 2}}}
		}},
	} {
		c.deploy(kind.name, kind.change)
		c.createRoute(kind.name, kind.name, 80)
		c.available(kind.name, 3)
		c.until(kind.name + ".example")
		counts, worst := c.under([]string{kind.name + ".example"}, func() {
			for range 2 {
				time.Sleep(2 * time.Second)
				c.restart(kind.name)
				c.available(kind.name, 3)
			}
			time.Sleep(2 * time.Second)
		})
		fmt.Printf("two rolling restarts of 3 %s: %s; the slowest request took %s\n", kind.title, show(counts), milliseconds(worst))
		failed += failures(counts)
	}
	c.scale("abrupt", 0)
	begin := time.Now()
	clients := client(1)
	for {
		status, body, err := c.get(clients, "abrupt.example")
		if err == nil && status == 503 {
			fmt.Printf("scaled to 0: 503 after %s: %s\n", milliseconds(time.Since(begin)), strings.TrimSpace(body))
			break
		}
		if time.Since(begin) > 20*time.Second {
			log.Fatalf("scaled to 0: %d, %v after 20 s", status, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
	c.scale("abrupt", 3)
	c.available("abrupt", 3)
	fmt.Printf("scaled to 3: 200 %s after the pods are available\n", milliseconds(c.until("abrupt.example")))
	if failed > 0 {
		c.close()
		log.Fatalf("%d requests failed", failed)
	}
}

// failures returns how many requests were not answered with 200.
func failures(counts map[string]int) int {
	failed := 0
	for result, count := range counts {
		if result != "200" {
			failed += count
		}
	}
	return failed
}

func show(counts map[string]int) string {
	var parts []string
	for result, count := range counts {
		parts = append(parts, fmt.Sprintf("%d x %s", count, result))
	}
	sort.Strings(parts)
	return strings.Join(parts, ", ")
}

// deploy makes a Deployment of 3 and its Service.
func (c *cluster) deploy(name string, change func(*corev1.PodSpec)) {
	ctx := context.Background()
	labels := map[string]string{"app": name}
	three := int32(3)
	pod := corev1.PodSpec{Containers: []corev1.Container{{Name: "echo", Image: "registry.k8s.io/gateway-api/echo-basic:v1"}}}
	change(&pod)
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{
		Replicas: &three,
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod},
	}}
	_, err := c.core.AppsV1().Deployments(c.namespace).Create(ctx, deployment, metav1.CreateOptions{})
	must(err)
	ports := []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(3000)}}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Selector: labels, Ports: ports}}
	_, err = c.core.CoreV1().Services(c.namespace).Create(ctx, service, metav1.CreateOptions{})
	must(err)
}

func (c *cluster) patch(name, patch string) {
	_, err := c.core.AppsV1().Deployments(c.namespace).Patch(context.Background(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	must(err)
}

func (c *cluster) scale(name string, replicas int) {
	c.patch(name, fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas))
}

// restart replaces all pods of a Deployment, as `kubectl rollout restart` does.
func (c *cluster) restart(name string) {
	now := time.Now().Format(time.RFC3339Nano)
	c.patch(name, fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"restarted":%q}}}}}`, now))
}

// available waits until a Deployment consists of new pods only, and all are available.
func (c *cluster) available(name string, replicas int32) {
	for end := time.Now().Add(60 * time.Second); ; {
		d, err := c.core.AppsV1().Deployments(c.namespace).Get(context.Background(), name, metav1.GetOptions{})
		must(err)
		s := d.Status
		if s.ObservedGeneration >= d.Generation && s.UpdatedReplicas == replicas && s.Replicas == replicas && s.AvailableReplicas == replicas {
			return
		}
		if time.Now().After(end) {
			log.Fatalf("%s has %d of %d pods after 60 s", name, s.AvailableReplicas, replicas)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// under sends requests to hosts in turn at a fixed rate while something happens. It returns how often each result was
// seen, and the longest time from when a request was due to its end.
func (c *cluster) under(hosts []string, happens func()) (map[string]int, time.Duration) {
	clients := client(*connections)
	counts := map[string]int{}
	var worst time.Duration
	var mutex sync.Mutex
	var sent sync.WaitGroup
	done := make(chan struct{})
	go func() {
		happens()
		close(done)
	}()
	begin := time.Now()
	for number := 0; ; number++ {
		due := begin.Add(time.Duration(number) * time.Second / time.Duration(*rate))
		select {
		case <-done:
			sent.Wait()
			return counts, worst
		case <-time.After(time.Until(due)):
		}
		sent.Add(1)
		go func() {
			defer sent.Done()
			status, body, err := c.get(clients, hosts[number%len(hosts)])
			result := fmt.Sprint(status)
			if err == nil && status != 200 {
				result, _, _ = strings.Cut(body, "\n") // the reason
			}
			if err != nil {
				result = err.Error()[strings.LastIndex(err.Error(), ": ")+1:]
			}
			mutex.Lock()
			counts[result]++
			worst = max(worst, time.Since(due))
			mutex.Unlock()
		}()
	}
}
