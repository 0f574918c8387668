//go:build !smoke

package main

import (
	"os"

	"k8s.io/component-base/cli"
	manager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

// The controllers are the smaller part at run time, and the larger one to compile. The smoke run needs none of them.
func init() {
	programs["controllers"] = func() { os.Exit(cli.Run(manager.NewControllerManagerCommand())) }
}
