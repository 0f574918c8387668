package main

import (
	"fmt"
	"net/http"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// readiness returns the URLs of a pod's readiness probes. The node asks them until the pod is ready, and not again later.
func readiness(p *corev1.Pod, it *pod) []string {
	var urls []string
	for _, c := range p.Spec.Containers {
		if c.ReadinessProbe != nil && c.ReadinessProbe.HTTPGet != nil {
			get := c.ReadinessProbe.HTTPGet
			port := portOf(c, get.Port.IntValue(), get.Port.StrVal)
			urls = append(urls, fmt.Sprintf("http://%s%s", netip.AddrPortFrom(it.ip, port), get.Path))
		}
	}
	return urls
}

// ready returns whether all probes succeed.
func ready(urls []string) bool {
	client := http.Client{Timeout: time.Second}
	for _, url := range urls {
		response, err := client.Get(url)
		if err != nil {
			return false
		}
		response.Body.Close()
		if response.StatusCode >= 400 {
			return false
		}
	}
	return true
}

// preStop runs the preStop hooks of a pod. Only sleep is supported.
func (r *runner) preStop(p *corev1.Pod) {
	for _, c := range p.Spec.Containers {
		if c.Lifecycle != nil && c.Lifecycle.PreStop != nil && c.Lifecycle.PreStop.Sleep != nil {
			time.Sleep(time.Duration(c.Lifecycle.PreStop.Sleep.Seconds) * time.Second)
		}
	}
}
