package main

import (
	"context"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// volumes writes secrets and config maps to files. Returns the folder of each volume, by its name.
func (r *runner) volumes(p *corev1.Pod, it *pod) (map[string]string, error) {
	ctx := context.Background()
	folders := map[string]string{}
	for _, v := range p.Spec.Volumes {
		if v.HostPath != nil {
			folders[v.Name] = v.HostPath.Path
			if v.HostPath.Path == "/sys/fs/cgroup" && *cgroups != "" {
				folders[v.Name] = *cgroups
			}
			continue
		}
		dir := filepath.Join(it.dir, "volumes", v.Name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
		data := map[string][]byte{}
		var items []corev1.KeyToPath
		switch {
		case v.Secret != nil:
			s, err := r.client.CoreV1().Secrets(p.Namespace).Get(ctx, v.Secret.SecretName, metav1.GetOptions{})
			if err != nil {
				return nil, err
			}
			data, items = s.Data, v.Secret.Items
		case v.ConfigMap != nil:
			c, err := r.client.CoreV1().ConfigMaps(p.Namespace).Get(ctx, v.ConfigMap.Name, metav1.GetOptions{})
			if err != nil {
				return nil, err
			}
			for k, t := range c.Data {
				data[k] = []byte(outside(t, p, it))
			}
			items = v.ConfigMap.Items
		}
		if items == nil {
			for k := range data {
				items = append(items, corev1.KeyToPath{Key: k, Path: k})
			}
		}
		for _, item := range items {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, item.Path)), 0o755); err != nil {
				return nil, err
			}
			if err := os.WriteFile(filepath.Join(dir, item.Path), data[item.Key], 0o600); err != nil {
				return nil, err
			}
		}
		folders[v.Name] = dir
	}
	return folders, nil
}
