package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// line is a line of a container's output.
type line struct {
	at   time.Time
	text string
}

// container is a program that runs as a container.
type container struct {
	name  string
	id    string
	group []string // folders of its control group
	cmd   *exec.Cmd
	mu    sync.Mutex
	lines []line
	done  chan struct{}
}

// launch starts the program of a container and waits until it has written a line, or a second has passed.
func (r *runner) launch(p *corev1.Pod, it *pod, c corev1.Container, folders map[string]string) (*container, error) {
	cmd, err := r.command(p, it, c, folders)
	if err != nil {
		return nil, err
	}
	_ = os.MkdirAll(it.dir, 0o755)
	out, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = in, in
	run := &container{name: c.Name, id: it.uid + "-" + c.Name, cmd: cmd, done: make(chan struct{})}
	if run.group, err = addGroup(it.uid, run.id, c.Resources.Limits.Cpu().MilliValue()); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	// It has started no process of its own yet: it would have to execute its program first.
	for _, group := range run.group {
		must(os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(cmd.Process.Pid)), 0o644))
	}
	in.Close()
	first := make(chan struct{})
	go run.collect(out, first)
	select { // most programs write a line when they listen, or shortly before
	case <-first:
		time.Sleep(50 * time.Millisecond)
	case <-time.After(time.Second):
	}
	return run, nil
}

// command returns the command of a container: the program of its image, in the pod's network namespace if it has one.
func (r *runner) command(p *corev1.Pod, it *pod, c corev1.Container, folders map[string]string) (*exec.Cmd, error) {
	name := c.Image
	if slash := strings.LastIndex(name, "/"); strings.Contains(name[slash+1:], ":") {
		name = name[:strings.LastIndex(name, ":")]
	}
	program, ok := images[name]
	if !ok {
		return nil, fmt.Errorf("no program for image %s", name)
	}
	// The path outside of a path within the container.
	outside := func(s string) string {
		for _, m := range c.VolumeMounts {
			if dir, ok := folders[m.Name]; ok && strings.HasPrefix(s, m.MountPath) {
				return dir + strings.TrimPrefix(s, m.MountPath)
			}
		}
		return s
	}
	variables, err := r.variables(p.Namespace)
	if err != nil {
		return nil, err
	}
	account, err := r.account(p, it)
	if err != nil {
		return nil, err
	}
	env := append([]string{"PATH=" + os.Getenv("PATH"), "POD_IP=" + it.ip.String(), "HOSTNAME=" + p.Name}, variables...)
	for _, e := range c.Env {
		env = append(env, e.Name+"="+outside(value(p, it, e)))
	}
	var args []string
	if len(c.Command) > 1 {
		args = append(args, c.Command[1:]...)
	}
	for _, a := range c.Args {
		args = append(args, outside(a))
	}
	if it.ns != "" {
		program, args = inNamespace(it, account, program, args)
	}
	cmd := exec.Command(program, args...)
	cmd.Env = env
	cmd.Dir = it.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	return cmd, nil
}

// value returns the value of a variable.
func value(p *corev1.Pod, it *pod, e corev1.EnvVar) string {
	if e.ValueFrom == nil || e.ValueFrom.FieldRef == nil {
		return e.Value
	}
	switch e.ValueFrom.FieldRef.FieldPath {
	case "metadata.name":
		return p.Name
	case "metadata.namespace":
		return p.Namespace
	case "status.podIP":
		return it.ip.String()
	case "spec.nodeName":
		return p.Spec.NodeName
	case "spec.serviceAccountName":
		return p.Spec.ServiceAccountName
	}
	return e.Value
}

// collect keeps the lines that the program writes, and waits for its end. It closes first after the first line.
func (c *container) collect(out *os.File, first chan<- struct{}) {
	var once sync.Once
	lines := bufio.NewReader(out)
	for {
		text, err := lines.ReadString('\n')
		if text != "" {
			c.mu.Lock()
			c.lines = append(c.lines, line{time.Now(), text})
			if len(c.lines) > 200_000 {
				c.lines = c.lines[100_000:]
			}
			c.mu.Unlock()
			once.Do(func() { close(first) })
		}
		if err != nil {
			once.Do(func() { close(first) })
			break
		}
	}
	out.Close()
	_ = c.cmd.Wait()
	close(c.done)
}

// text returns the output since a time.
func (c *container) text(since time.Time) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	for _, l := range c.lines {
		if !l.at.Before(since) {
			b.WriteString(l.text)
		}
	}
	return b.String()
}
