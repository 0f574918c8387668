package main

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// addGroup makes the control group of a container, as the kubelet names it with the driver cgroupfs: in each tree that
// counts or limits CPU in version 1, in the only one of version 2.
func addGroup(uid, id string, milliCores int64) ([]string, error) {
	if *cgroups == "" {
		return nil, nil
	}
	trees := trees()
	var groups []string
	for _, tree := range trees {
		folder := tree
		for _, part := range []string{"kubepods", "besteffort", "pod" + uid, id} {
			// Version 2: the children of the folder have limits of CPU. There is no such file in version 1.
			if len(trees) == 1 {
				_ = os.WriteFile(filepath.Join(folder, "cgroup.subtree_control"), []byte("+cpu"), 0o644)
			}
			folder = filepath.Join(folder, part)
			if err := os.Mkdir(folder, 0o755); err != nil && !os.IsExist(err) {
				return nil, err
			}
		}
		groups = append(groups, folder)
		if milliCores == 0 {
			continue
		}
		limit, text := filepath.Join(folder, "cpu.cfs_quota_us"), strconv.FormatInt(milliCores*100, 10)
		if len(trees) == 1 {
			limit, text = filepath.Join(folder, "cpu.max"), text+" 100000"
		}
		if _, err := os.Stat(limit); err == nil {
			if err := os.WriteFile(limit, []byte(text), 0o644); err != nil {
				return nil, err
			}
		}
	}
	return groups, nil
}

// trees returns the folders of the trees that count and limit CPU: two of version 1, or the one of version 2.
func trees() []string {
	one := []string{filepath.Join(*cgroups, "cpuacct"), filepath.Join(*cgroups, "cpu")}
	if _, err := os.Stat(one[0]); err != nil {
		return []string{*cgroups}
	}
	return one
}

// removeGroups removes the control groups of a pod, including groups that its programs created.
func removeGroups(uid string) {
	if *cgroups == "" {
		return
	}
	for _, tree := range trees() {
		pod := filepath.Join(tree, "kubepods/besteffort", "pod"+uid)
		// The last processes may take a moment to leave.
		for range 100 {
			var folders []string
			_ = filepath.WalkDir(pod, func(path string, entry os.DirEntry, err error) error {
				if err == nil && entry.IsDir() {
					folders = append(folders, path)
				}
				return nil
			})
			for _, folder := range slices.Backward(folders) {
				_ = os.Remove(folder)
			}
			if _, err := os.Stat(pod); err != nil {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
}
