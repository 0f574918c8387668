package main

import (
	"context"
	"log"
	"net"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
)

// node is a node that pods can be bound to.
type node struct {
	name   string
	labels map[string]string
}

// fits returns whether a pod may run on the node.
func (n node) fits(p *corev1.Pod) bool {
	for key, value := range p.Spec.NodeSelector {
		if n.labels[key] != value {
			return false
		}
	}
	return true
}

// isOurs returns whether a node of this name is one of these.
func isOurs(name string) bool {
	return slices.ContainsFunc(nodes, func(n node) bool { return n.name == name })
}

// register creates a node with the address of the endpoint for logs.
func (r *runner) register(n node) {
	host, port, _ := net.SplitHostPort(*listen)
	number, _ := strconv.Atoi(port)
	ctx := context.Background()
	made := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.name, Labels: n.labels}}
	if _, err := r.client.CoreV1().Nodes().Create(ctx, made, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		log.Fatal(err)
	}
	must(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		node, err := r.client.CoreV1().Nodes().Get(ctx, n.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: host}}
		node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(number)
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "Pods", LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}}
		_, err = r.client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
		return err
	}))
}
