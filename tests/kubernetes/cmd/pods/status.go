package main

import (
	"context"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"log"
	"net"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
)

// report writes the status of a pod.
func (r *runner) report(p *corev1.Pod, it *pod, isReady bool) {
	host, _, _ := net.SplitHostPort(*listen)
	yes := true
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		now, err := r.client.CoreV1().Pods(p.Namespace).Get(context.Background(), p.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		s := &now.Status
		s.Phase, s.HostIP, s.PodIP = corev1.PodRunning, host, it.ip.String()
		s.PodIPs, s.HostIPs = []corev1.PodIP{{IP: s.PodIP}}, []corev1.HostIP{{IP: host}}
		s.StartTime = &it.started
		s.Conditions = nil
		for _, kind := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
			status := corev1.ConditionTrue
			if !isReady && (kind == corev1.ContainersReady || kind == corev1.PodReady) {
				status = corev1.ConditionFalse
			}
			s.Conditions = append(s.Conditions, corev1.PodCondition{Type: kind, Status: status, LastTransitionTime: metav1.Now(), ObservedGeneration: now.Generation})
		}
		s.ContainerStatuses = nil
		for _, c := range now.Spec.Containers {
			state := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: it.started}}
			if ended := it.ended(c.Name); ended != nil {
				state = corev1.ContainerState{Terminated: ended}
			}
			s.ContainerStatuses = append(s.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, Image: c.Image, ImageID: c.Image, ContainerID: "process://" + it.uid + "-" + c.Name, Ready: isReady, Started: &yes, State: state})
		}
		if phase := it.phase(); phase != "" {
			s.Phase = phase
		}
		_, err = r.client.CoreV1().Pods(p.Namespace).UpdateStatus(context.Background(), now, metav1.UpdateOptions{})
		return err
	})
	if err != nil && !apierrors.IsNotFound(err) {
		log.Printf("%s/%s: status: %v", p.Namespace, p.Name, err)
	}
}

// ended returns how a container ended; nil while it runs.
func (it *pod) ended(name string) *corev1.ContainerStateTerminated {
	for _, c := range it.containers {
		if c.name != name {
			continue
		}
		select {
		case <-c.done:
			return &corev1.ContainerStateTerminated{ExitCode: int32(c.cmd.ProcessState.ExitCode()), StartedAt: it.started, FinishedAt: metav1.Now()}
		default:
		}
	}
	return nil
}

// phase returns the phase of a pod whose containers have all ended; empty while one runs.
func (it *pod) phase() corev1.PodPhase {
	phase := corev1.PodSucceeded
	for _, c := range it.containers {
		ended := it.ended(c.name)
		if ended == nil {
			return ""
		}
		if ended.ExitCode != 0 {
			phase = corev1.PodFailed
		}
	}
	if len(it.containers) == 0 {
		return ""
	}
	return phase
}
