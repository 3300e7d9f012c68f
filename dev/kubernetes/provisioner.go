package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	core "k8s.io/api/core/v1"
	storage "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

// The in-tree host-path provisioner ignores fsGroup and makes directories that
// only root may enter, so no pod of a restricted namespace could use one of
// its volumes. This one makes "local" volumes, to which the kubelet applies
// fsGroup as it does to any real disk.
const provisionerName = "tanist.dev/directory"

type provisioner struct {
	client    kubernetes.Interface
	directory string
}

func provision(arguments []string) error {
	flags := flag.NewFlagSet("provisioner", flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "how to reach the API server")
	directory := flags.String("directory", "", "where volumes are made; every node sees it at the same path")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 100, 200
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	p := provisioner{client: client, directory: *directory}
	for {
		if err := p.watch(context.Background()); err != nil {
			klog.Errorf("watching claims and volumes: %v", err)
			time.Sleep(time.Second)
		}
	}
}

// watch makes a full round at every change and every five seconds. A test
// cluster holds few claims, so rounds are cheap, and a round needs no cache
// that could be stale.
func (p provisioner) watch(ctx context.Context) error {
	claims, err := p.client.CoreV1().PersistentVolumeClaims("").Watch(ctx, meta.ListOptions{})
	if err != nil {
		return err
	}
	defer claims.Stop()
	volumes, err := p.client.CoreV1().PersistentVolumes().Watch(ctx, meta.ListOptions{})
	if err != nil {
		return err
	}
	defer volumes.Stop()
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for {
		if err := p.round(ctx); err != nil {
			return err
		}
		open := true
		select {
		case _, open = <-claims.ResultChan():
		case _, open = <-volumes.ResultChan():
		case <-tick.C:
		}
		if !open {
			return nil // the server ends watches now and then
		}
	}
}

func (p provisioner) round(ctx context.Context) error {
	claims, err := p.client.CoreV1().PersistentVolumeClaims("").List(ctx, meta.ListOptions{})
	if err != nil {
		return err
	}
	for i := range claims.Items {
		claim := &claims.Items[i]
		if err := p.provide(ctx, claim); err != nil {
			klog.Errorf("claim %s/%s: %v", claim.Namespace, claim.Name, err)
		}
		if err := p.grow(ctx, claim); err != nil {
			klog.Errorf("growing claim %s/%s: %v", claim.Namespace, claim.Name, err)
		}
	}
	volumes, err := p.client.CoreV1().PersistentVolumes().List(ctx, meta.ListOptions{})
	if err != nil {
		return err
	}
	for i := range volumes.Items {
		volume := &volumes.Items[i]
		if err := p.reclaim(ctx, volume); err != nil {
			klog.Errorf("volume %s: %v", volume.Name, err)
		}
	}
	return nil
}

func (p provisioner) provide(ctx context.Context, claim *core.PersistentVolumeClaim) error {
	// The volume controller names the provisioner once it wants a volume made.
	if claim.Annotations["volume.kubernetes.io/storage-provisioner"] != provisionerName ||
		claim.Spec.VolumeName != "" || claim.Spec.StorageClassName == nil || claim.DeletionTimestamp != nil {
		return nil
	}
	name := "pvc-" + string(claim.UID)
	if _, err := p.client.CoreV1().PersistentVolumes().Get(ctx, name, meta.GetOptions{}); !errors.IsNotFound(err) {
		return err
	}
	class, err := p.client.StorageV1().StorageClasses().Get(ctx, *claim.Spec.StorageClassName, meta.GetOptions{})
	if err != nil {
		return err
	}
	// Every node sees the directory, unless the class waits for a pod: then the
	// volume belongs to that pod's node, as the disk of a real node would.
	affinity := core.NodeSelectorRequirement{Key: core.LabelOSStable, Operator: core.NodeSelectorOpIn, Values: []string{"linux"}}
	if mode := class.VolumeBindingMode; mode != nil && *mode == storage.VolumeBindingWaitForFirstConsumer {
		node := claim.Annotations["volume.kubernetes.io/selected-node"]
		if node == "" {
			return nil
		}
		affinity.Key, affinity.Values = core.LabelHostname, []string{node}
	}
	path := filepath.Join(p.directory, name)
	if err := os.MkdirAll(path, 0o755); err != nil {
		return fmt.Errorf("making its directory: %w", err)
	}
	volume := &core.PersistentVolume{
		ObjectMeta: meta.ObjectMeta{
			Name:        name,
			Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": provisionerName},
		},
		Spec: core.PersistentVolumeSpec{
			Capacity:               core.ResourceList{core.ResourceStorage: claim.Spec.Resources.Requests[core.ResourceStorage]},
			AccessModes:            claim.Spec.AccessModes,
			StorageClassName:       class.Name,
			PersistentVolumeSource: core.PersistentVolumeSource{Local: &core.LocalVolumeSource{Path: path}},
			ClaimRef: &core.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim",
				Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
			NodeAffinity: &core.VolumeNodeAffinity{Required: &core.NodeSelector{
				NodeSelectorTerms: []core.NodeSelectorTerm{{MatchExpressions: []core.NodeSelectorRequirement{affinity}}},
			}},
		},
	}
	if class.ReclaimPolicy != nil {
		volume.Spec.PersistentVolumeReclaimPolicy = *class.ReclaimPolicy
	}
	_, err = p.client.CoreV1().PersistentVolumes().Create(ctx, volume, meta.CreateOptions{})
	return err
}

// grow does what the resizer of a real storage does: first the volume becomes
// larger, then the claim says so. A directory has as much as its disk, so there
// is nothing else to do.
func (p provisioner) grow(ctx context.Context, claim *core.PersistentVolumeClaim) error {
	if claim.Status.Phase != core.ClaimBound || claim.DeletionTimestamp != nil {
		return nil
	}
	asked, has := claim.Spec.Resources.Requests[core.ResourceStorage], claim.Status.Capacity[core.ResourceStorage]
	if asked.Cmp(has) <= 0 {
		return nil
	}
	volume, err := p.client.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, meta.GetOptions{})
	if err != nil || volume.Annotations["pv.kubernetes.io/provisioned-by"] != provisionerName {
		return err
	}
	if volume.Spec.Capacity.Storage().Cmp(asked) < 0 {
		volume.Spec.Capacity[core.ResourceStorage] = asked
		if _, err := p.client.CoreV1().PersistentVolumes().Update(ctx, volume, meta.UpdateOptions{}); err != nil {
			return err
		}
	}
	grown := claim.DeepCopy()
	grown.Status.Capacity[core.ResourceStorage] = asked
	_, err = p.client.CoreV1().PersistentVolumeClaims(claim.Namespace).UpdateStatus(ctx, grown, meta.UpdateOptions{})
	return err
}

func (p provisioner) reclaim(ctx context.Context, volume *core.PersistentVolume) error {
	if volume.Annotations["pv.kubernetes.io/provisioned-by"] != provisionerName || volume.DeletionTimestamp != nil ||
		volume.Status.Phase != core.VolumeReleased ||
		volume.Spec.PersistentVolumeReclaimPolicy != core.PersistentVolumeReclaimDelete {
		return nil
	}
	if err := os.RemoveAll(filepath.Join(p.directory, volume.Name)); err != nil {
		return fmt.Errorf("removing its directory: %w", err)
	}
	err := p.client.CoreV1().PersistentVolumes().Delete(ctx, volume.Name, meta.DeleteOptions{})
	if errors.IsNotFound(err) {
		return nil
	}
	return err
}
