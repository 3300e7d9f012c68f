// One binary with every Kubernetes component of the development cluster. The
// first argument names the component, the rest are its own arguments. One
// link instead of seven keeps the build within minutes and the cache small.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	if len(os.Args) < 2 {
		fail("name a component")
	}
	name := os.Args[1]
	// Cobra and the kubelet read os.Args themselves.
	os.Args = os.Args[1:]
	switch name {
	case "etcd":
		etcdmain.Main(os.Args)
	case "kube-apiserver":
		run(apiserver.NewAPIServerCommand())
	case "kube-controller-manager":
		run(controllers.NewControllerManagerCommand())
	case "kube-scheduler":
		run(scheduler.NewSchedulerCommand())
	case "kubelet":
		run(kubelet.NewKubeletCommand(context.Background()))
	case "kube-proxy":
		run(proxy.NewProxyCommand())
	case "kubectl":
		// kubectl prints its own errors and picks its exit code (that of the
		// command in `exec`), so its error must not be printed a second time.
		if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
			util.CheckErr(err)
		}
	case "coredns":
		dns()
	case "provisioner":
		fail(provision(os.Args[1:]).Error()) // returns only when it could not start
	default:
		fail("unknown component " + name)
	}
}

func run(command *cobra.Command) {
	os.Exit(cli.Run(command))
}

func fail(problem string) {
	fmt.Fprintln(os.Stderr, "tanist-kubernetes: "+problem+"; components:"+
		" etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubelet, kube-proxy, kubectl, coredns, provisioner")
	os.Exit(2)
}
