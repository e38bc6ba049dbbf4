package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

// What a hub takes to stop, with its defaults in a cluster: --drain-delay and --shutdown-timeout.
const stopping = 35 * time.Second

// cluster is the objects of some files, by kind.
type cluster struct {
	sets     []*appsv1.StatefulSet
	services map[string]*corev1.Service
	budgets  []*policyv1.PodDisruptionBudget
	policies []*networkingv1.NetworkPolicy
}

// readCluster decodes files strictly: a field that the API does not have is an error, and so is one given twice.
func readCluster(files []string) (*cluster, error) {
	c := &cluster{services: map[string]*corev1.Service{}}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for i, document := range bytes.Split(text, []byte("\n---\n")) {
			if err := c.add(document); err != nil {
				return nil, fmt.Errorf("%s: object %d: %w", file, i+1, err)
			}
		}
	}
	return c, nil
}

func (c *cluster) add(document []byte) error {
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal(document, &kind); err != nil {
		return err
	}
	switch kind.APIVersion + " " + kind.Kind {
	case "apps/v1 StatefulSet":
		c.sets = append(c.sets, new(appsv1.StatefulSet))
		return yaml.UnmarshalStrict(document, c.sets[len(c.sets)-1])
	case "v1 Service":
		s := new(corev1.Service)
		err := yaml.UnmarshalStrict(document, s)
		c.services[s.Name] = s
		return err
	case "policy/v1 PodDisruptionBudget":
		c.budgets = append(c.budgets, new(policyv1.PodDisruptionBudget))
		return yaml.UnmarshalStrict(document, c.budgets[len(c.budgets)-1])
	case "networking.k8s.io/v1 NetworkPolicy":
		c.policies = append(c.policies, new(networkingv1.NetworkPolicy))
		return yaml.UnmarshalStrict(document, c.policies[len(c.policies)-1])
	default:
		return fmt.Errorf("unknown kind %q of %q", kind.Kind, kind.APIVersion)
	}
}

// check looks whether the objects name each other rightly. Every mistake is reported.
func (c *cluster) check() error {
	if len(c.sets) == 0 {
		return errors.New("no StatefulSet")
	}
	var errs []error
	for _, set := range c.sets {
		for _, err := range append(c.checkSet(set), checkPod(set)...) {
			errs = append(errs, fmt.Errorf("StatefulSet %s: %w", set.Name, err))
		}
	}
	return errors.Join(errs...)
}

func (c *cluster) checkSet(set *appsv1.StatefulSet) (errs []error) {
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	pod := labels.Set(set.Spec.Template.Labels)
	selects := func(what string, s *metav1.LabelSelector) {
		if selector, err := metav1.LabelSelectorAsSelector(s); err != nil || selector.Empty() || !selector.Matches(pod) {
			fail("%s does not select the pods", what)
		}
	}
	selects("selector", set.Spec.Selector)
	for _, t := range set.Spec.Template.Spec.TopologySpreadConstraints {
		selects("topologySpreadConstraints "+t.TopologyKey, t.LabelSelector)
	}
	ports := map[string]bool{}
	for _, p := range set.Spec.Template.Spec.Containers[0].Ports {
		ports[p.Name] = true
	}
	for name, s := range c.services {
		if !labels.SelectorFromSet(s.Spec.Selector).Matches(pod) || len(s.Spec.Selector) == 0 {
			fail("Service %s does not select the pods", name)
		}
		for _, p := range s.Spec.Ports {
			if !ports[p.TargetPort.String()] {
				fail("Service %s: no container port is called %q", name, p.TargetPort.String())
			}
		}
	}
	for _, b := range c.budgets {
		selects("PodDisruptionBudget "+b.Name, b.Spec.Selector)
		if b.Spec.MaxUnavailable == nil || *b.Spec.MaxUnavailable != intstr.FromInt32(1) {
			fail("PodDisruptionBudget %s: maxUnavailable must be 1: a cluster of three serves publishers with two", b.Name)
		}
	}
	for _, p := range c.policies {
		selects("NetworkPolicy "+p.Name, &p.Spec.PodSelector)
		for _, rule := range p.Spec.Ingress {
			for _, port := range rule.Ports {
				if !ports[port.Port.String()] {
					fail("NetworkPolicy %s: no container port is called %q", p.Name, port.Port.String())
				}
			}
		}
	}
	if len(c.budgets) == 0 {
		fail("has no PodDisruptionBudget")
	}
	if set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement {
		fail("podManagementPolicy must be Parallel: one node alone never becomes ready")
	}
	nodes := c.services[set.Spec.ServiceName]
	if nodes == nil || nodes.Spec.ClusterIP != corev1.ClusterIPNone || !nodes.Spec.PublishNotReadyAddresses {
		fail("serviceName %q must be a headless Service with publishNotReadyAddresses", set.Spec.ServiceName)
	}
	var want []string
	for i := range *set.Spec.Replicas {
		want = append(want, fmt.Sprintf("%s-%d.%s:6222", set.Name, i, set.Spec.ServiceName))
	}
	if got := podSettings(set, 0)["CINNABAR_CLUSTER_PEER"]; got != strings.Join(want, ",") {
		fail("CINNABAR_CLUSTER_PEER is %q, %d replicas make %q", got, *set.Spec.Replicas, strings.Join(want, ","))
	}
	return errs
}

func checkPod(set *appsv1.StatefulSet) (errs []error) {
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	pod := set.Spec.Template.Spec
	hub := pod.Containers[0]
	if g := pod.TerminationGracePeriodSeconds; g == nil || time.Duration(*g)*time.Second <= stopping {
		fail("terminationGracePeriodSeconds must be more than the %v that a hub may take", stopping)
	}
	ports := map[string]bool{}
	for _, p := range hub.Ports {
		ports[p.Name] = true
	}
	for what, probe := range map[string]struct {
		*corev1.Probe
		path string
	}{"startupProbe": {hub.StartupProbe, "/livez"}, "livenessProbe": {hub.LivenessProbe, "/livez"}, "readinessProbe": {hub.ReadinessProbe, "/readyz"}} {
		if probe.Probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != probe.path || !ports[probe.HTTPGet.Port.String()] {
			fail("%s must ask for %s on a port of the container", what, probe.path)
		}
	}
	volumes := map[string]bool{}
	for _, v := range pod.Volumes {
		volumes[v.Name] = true
	}
	for _, v := range set.Spec.VolumeClaimTemplates {
		volumes[v.Name] = true
	}
	for _, m := range hub.VolumeMounts {
		if !volumes[m.Name] {
			fail("no volume is called %q", m.Name)
		}
	}
	s := hub.SecurityContext
	if s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation {
		fail("the container's file system must be read-only, and no privileges to be had")
	}
	if pod.SecurityContext == nil || pod.SecurityContext.RunAsNonRoot == nil || !*pod.SecurityContext.RunAsNonRoot {
		fail("the pod must not run as root")
	}
	return errs
}

// podSettings is the environment of the hub in pod n of set.
func podSettings(set *appsv1.StatefulSet, n int) map[string]string {
	env := map[string]string{}
	for _, v := range set.Spec.Template.Spec.Containers[0].Env {
		env[v.Name] = v.Value
		if v.ValueFrom != nil && v.ValueFrom.FieldRef != nil && v.ValueFrom.FieldRef.FieldPath == "metadata.name" {
			env[v.Name] = fmt.Sprintf("%s-%d", set.Name, n)
		}
	}
	return env
}
