package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"log"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// pod is a pod that runs here.
type pod struct {
	namespace, name, uid string
	ip                   netip.Addr
	ns                   string // network namespace, if any
	dir                  string
	containers           []*container
	started              metav1.Time
}

// runner starts and stops the pods of the nodes.
type runner struct {
	client kubernetes.Interface
	mu     sync.Mutex
	pods   map[string]*pod // by uid
	next   uint32
	base   netip.Prefix
	free   []netip.Addr
	ending map[string]bool // by uid
}

// see handles a new or changed pod: it binds, starts or stops it.
func (r *runner) see(p *corev1.Pod) {
	ctx := context.Background()
	switch {
	case p.DeletionTimestamp != nil:
		if p.Spec.NodeName != "" && !isOurs(p.Spec.NodeName) {
			return
		}
		uid := string(p.UID)
		r.mu.Lock()
		ending := r.ending[uid]
		r.ending[uid] = true
		r.mu.Unlock()
		if ending { // an earlier event ends it
			return
		}
		r.preStop(p)
		grace := int64(30)
		if p.Spec.TerminationGracePeriodSeconds != nil {
			grace = *p.Spec.TerminationGracePeriodSeconds
		}
		r.stop(uid, time.Duration(grace)*time.Second)
		zero := int64(0)
		err := r.client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: &zero, Preconditions: &metav1.Preconditions{UID: &p.UID}})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			log.Printf("%s/%s: delete: %v", p.Namespace, p.Name, err)
		}
	case p.Spec.NodeName == "" && p.Spec.SchedulerName == corev1.DefaultSchedulerName:
		at := slices.IndexFunc(nodes, func(n node) bool { return n.fits(p) })
		if at < 0 { // it stays pending, as with a scheduler
			return
		}
		err := r.client.CoreV1().Pods(p.Namespace).Bind(ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: p.Name, UID: p.UID},
			Target:     corev1.ObjectReference{Kind: "Node", Name: nodes[at].name},
		}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			log.Printf("%s/%s: bind: %v", p.Namespace, p.Name, err)
		}
	case isOurs(p.Spec.NodeName) && p.Status.Phase == corev1.PodPending:
		r.start(p)
	}
}

// address returns an address for a pod.
func (r *runner) address() netip.Addr {
	if len(r.free) > 64 { // not at once: old connections may still lead to the address
		ip := r.free[0]
		r.free = r.free[1:]
		return ip
	}
	r.next++
	b := r.base.Masked().Addr().As4()
	binary.BigEndian.PutUint32(b[:], binary.BigEndian.Uint32(b[:])+r.next)
	return netip.AddrFrom4(b)
}

// start runs a pod and reports its status until its containers end.
func (r *runner) start(p *corev1.Pod) {
	uid := string(p.UID)
	r.mu.Lock()
	if _, there := r.pods[uid]; there {
		r.mu.Unlock()
		return
	}
	ip := r.base.Masked().Addr().Next() // the node's own address
	if !p.Spec.HostNetwork {
		ip = r.address()
	}
	it := &pod{namespace: p.Namespace, name: p.Name, uid: uid, ip: ip, dir: filepath.Join(*work, uid), started: metav1.Now()}
	r.pods[uid] = it
	r.mu.Unlock()
	if err := r.run(p, it); err != nil {
		log.Printf("%s/%s: %v", p.Namespace, p.Name, err)
		r.stop(uid, 0)
		removeGroups(uid)
		time.Sleep(time.Second) // a secret that is not there yet
		if now, err := r.client.CoreV1().Pods(p.Namespace).Get(context.Background(), p.Name, metav1.GetOptions{}); err == nil && now.DeletionTimestamp == nil && string(now.UID) == uid {
			go r.start(now)
		}
		return
	}
	r.mu.Lock()
	_, there := r.pods[uid]
	r.mu.Unlock()
	if !there { // it was deleted while it started
		r.end(it, 0)
		return
	}
	probes := readiness(p, it)
	r.report(p, it, len(probes) == 0)
	if len(probes) > 0 {
		for !ready(probes) && !r.isEnding(uid) {
			time.Sleep(100 * time.Millisecond)
		}
		r.report(p, it, true)
	}
	// A pod that is stopped reports nothing more.
	for _, c := range it.containers {
		<-c.done
	}
	if !r.isEnding(uid) && p.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		r.report(p, it, false)
	}
}

func (r *runner) isEnding(uid string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ending[uid]
}

// run starts the containers of a pod, after its init containers have ended.
func (r *runner) run(p *corev1.Pod, it *pod) error {
	if *netns && !p.Spec.HostNetwork {
		it.ns = "pod-" + it.uid[:8]
		if err := addNamespace(it, r.base); err != nil {
			return err
		}
		if err := r.names(it); err != nil {
			return err
		}
	}
	mounts, err := r.volumes(p, it)
	if err != nil {
		return err
	}
	for _, c := range p.Spec.InitContainers {
		run, err := r.launch(p, it, c, mounts)
		if err != nil {
			return err
		}
		<-run.done
		if code := run.cmd.ProcessState.ExitCode(); code != 0 {
			return fmt.Errorf("init container %s: exit code %d: %s", c.Name, code, run.text(time.Time{}))
		}
	}
	for _, c := range p.Spec.Containers {
		run, err := r.launch(p, it, c, mounts)
		if err != nil {
			return err
		}
		it.containers = append(it.containers, run)
	}
	return nil
}

// stop ends the processes of a pod: at once, or by SIGTERM and after the grace period by SIGKILL.
func (r *runner) stop(uid string, grace time.Duration) {
	r.mu.Lock()
	it, there := r.pods[uid]
	delete(r.pods, uid)
	r.mu.Unlock()
	if there {
		r.end(it, grace)
	}
}

// end ends the processes of a pod that is no longer in the list.
func (r *runner) end(it *pod, grace time.Duration) {
	for _, c := range it.containers {
		_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGTERM)
	}
	for _, c := range it.containers {
		select {
		case <-c.done:
		case <-time.After(max(grace, 2*time.Second)):
			_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL)
		}
	}
	removeGroups(it.uid)
	if it.ns != "" {
		_ = exec.Command("ip", "netns", "del", it.ns).Run()
		_ = os.RemoveAll(namesFolder(it))
	}
	_ = os.RemoveAll(it.dir)
	if it.ip != r.base.Masked().Addr().Next() {
		r.mu.Lock()
		r.free = append(r.free, it.ip)
		r.mu.Unlock()
	}
}
