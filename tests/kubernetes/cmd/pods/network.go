package main

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"os/exec"
	"strconv"
	"strings"
)

// addNamespace makes a network namespace with one end of a pair of devices; the other is on the bridge.
func addNamespace(it *pod, base netip.Prefix) error {
	id := hex.EncodeToString(it.ip.AsSlice()[2:])
	steps := [][]string{
		{"netns", "add", it.ns},
		{"link", "add", "v" + id, "type", "veth", "peer", "name", "eth0", "netns", it.ns},
		{"link", "set", "v" + id, "master", *bridge, "up"},
		{"-n", it.ns, "link", "set", "lo", "up"},
		{"-n", it.ns, "addr", "add", it.ip.String() + "/" + strconv.Itoa(base.Bits()), "dev", "eth0"},
		{"-n", it.ns, "link", "set", "eth0", "up"},
		{"-n", it.ns, "route", "add", "default", "via", base.Masked().Addr().Next().String()},
	}
	for _, step := range steps {
		if out, err := exec.Command("ip", step...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %s", strings.Join(step, " "), out)
		}
	}
	return nil
}
