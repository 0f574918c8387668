package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	authentication "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What a node lets programs know about the cluster: the account of the pod, and the Services of its namespace. A program
// sees the files of the machine and no others, so texts of a pod name the places of its volumes outside.

// accountFolder is where the client libraries of every language look.
const accountFolder = "/run/secrets/kubernetes.io/serviceaccount"

// account writes the token of a pod's account, and returns the folder; empty if the pod has none.
func (r *runner) account(p *corev1.Pod, it *pod) (string, error) {
	mounts := p.Spec.AutomountServiceAccountToken
	if it.ns == "" || *api == "" || p.Spec.ServiceAccountName == "" || mounts != nil && !*mounts {
		return "", nil
	}
	ctx := context.Background()
	hours := int64(12 * 3600)
	request := &authentication.TokenRequest{Spec: authentication.TokenRequestSpec{ExpirationSeconds: &hours}}
	answer, err := r.client.CoreV1().ServiceAccounts(p.Namespace).CreateToken(ctx, p.Spec.ServiceAccountName, request, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	authority, err := r.client.CoreV1().ConfigMaps(p.Namespace).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	folder := filepath.Join(it.dir, "account")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	files := map[string]string{"token": answer.Status.Token, "ca.crt": authority.Data["ca.crt"], "namespace": p.Namespace}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	return folder, os.MkdirAll(accountFolder, 0o755)
}

// inNamespace returns the command that runs a program in the network namespace of a pod. `ip netns exec` gives it mounts of
// its own, too.
func inNamespace(it *pod, account, program string, args []string) (string, []string) {
	command := []string{"netns", "exec", it.ns}
	if account != "" {
		command = append(command, "sh", "-c", "mount --bind \"$0\" "+accountFolder+" && exec \"$@\"", account)
	}
	return "ip", append(append(command, program), args...)
}

// variables returns the environment variables that name the API server and the Services of a namespace.
func (r *runner) variables(namespace string) ([]string, error) {
	var out []string
	if host, port, err := net.SplitHostPort(*api); err == nil {
		out = append(out, "KUBERNETES_SERVICE_HOST="+host, "KUBERNETES_SERVICE_PORT="+port)
	}
	services, err := r.client.CoreV1().Services(namespace).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, service := range services.Items {
		if ip := service.Spec.ClusterIP; ip != "" && ip != corev1.ClusterIPNone && len(service.Spec.Ports) > 0 {
			name := strings.ReplaceAll(strings.ToUpper(service.Name), "-", "_")
			out = append(out, fmt.Sprintf("%s_SERVICE_HOST=%s", name, ip), fmt.Sprintf("%s_SERVICE_PORT=%d", name, service.Spec.Ports[0].Port))
		}
	}
	return out, nil
}

// names writes the names of the Services of a pod's namespace with the addresses of their ready endpoints, where
// `ip netns exec` puts them in the place of /etc/hosts. There is no DNS, and no address of a Service leads anywhere. The
// names are those of the moment at which the pod starts.
func (r *runner) names(it *pod) error {
	endpoints, err := r.client.DiscoveryV1().EndpointSlices(it.namespace).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	text := "127.0.0.1 localhost\n"
	for _, slice := range endpoints.Items {
		for _, endpoint := range slice.Endpoints {
			if endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready {
				text += endpoint.Addresses[0] + " " + slice.Labels[discoveryv1.LabelServiceName] + "\n"
			}
		}
	}
	folder := namesFolder(it)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "hosts"), []byte(text), 0o644)
}

func namesFolder(it *pod) string {
	return filepath.Join("/etc/netns", it.ns)
}

// outside replaces the paths of a pod's mounts in a text by the folders of the volumes.
func outside(text string, p *corev1.Pod, it *pod) string {
	var mounts []corev1.VolumeMount
	for _, c := range p.Spec.Containers {
		mounts = append(mounts, c.VolumeMounts...)
	}
	// The longest first: one may be within another one.
	slices.SortFunc(mounts, func(one, other corev1.VolumeMount) int { return len(other.MountPath) - len(one.MountPath) })
	for _, m := range mounts {
		text = strings.ReplaceAll(text, m.MountPath+"/", filepath.Join(it.dir, "volumes", m.Name)+"/")
	}
	return text
}

// portOf returns the number of a port that is given by number or name.
func portOf(c corev1.Container, number int, name string) uint16 {
	for _, port := range c.Ports {
		if name != "" && port.Name == name {
			return uint16(port.ContainerPort)
		}
	}
	return uint16(number)
}
