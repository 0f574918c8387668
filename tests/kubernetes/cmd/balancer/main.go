// balancer: stands in for the load balancer of a cloud. It gives each Service of the type LoadBalancer an address of its own,
// and relays TCP connections to the Service's ports to its ready endpoints, in turn.
package main

import (
	"context"
	"encoding/binary"
	"flag"
	"io"
	"log"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/clientcmd"
)

var (
	kubeconfig = flag.String("kubeconfig", os.Getenv("KUBECONFIG"), "kubeconfig")
	first      = flag.String("first", "127.8.0.1", "the first address; Services get it and the following ones")
)

// balancer has the addresses and the listening sockets.
type balancer struct {
	client    kubernetes.Interface
	services  corelisters.ServiceLister
	slices    discoverylisters.EndpointSliceLister
	addresses map[string]netip.Addr // by the Service's uid
	sockets   map[socket]net.Listener
	turn      atomic.Uint64
}

// socket is a listening socket, and what it is for.
type socket struct {
	namespace, service, port string // the name of the port
	at                       netip.AddrPort
}

func main() {
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	must(err)
	config.QPS = -1
	client := kubernetes.NewForConfigOrDie(config)
	factory := informers.NewSharedInformerFactory(client, 0)
	b := &balancer{
		client: client, services: factory.Core().V1().Services().Lister(), slices: factory.Discovery().V1().EndpointSlices().Lister(),
		addresses: map[string]netip.Addr{}, sockets: map[socket]net.Listener{},
	}
	stop := make(chan struct{})
	factory.Start(stop)
	factory.WaitForCacheSync(stop)
	for {
		b.follow()
		time.Sleep(50 * time.Millisecond)
	}
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// follow gives new Services addresses, and opens and closes sockets.
func (b *balancer) follow() {
	services, err := b.services.List(labels.Everything())
	must(err)
	wanted := map[socket]bool{}
	for _, service := range services {
		if service.Spec.Type != corev1.ServiceTypeLoadBalancer || service.DeletionTimestamp != nil {
			continue
		}
		address := b.address(service)
		for _, port := range service.Spec.Ports {
			if port.Protocol == corev1.ProtocolTCP {
				at := netip.AddrPortFrom(address, uint16(port.Port))
				wanted[socket{service.Namespace, service.Name, port.Name, at}] = true
			}
		}
	}
	for one, listener := range b.sockets {
		if !wanted[one] {
			listener.Close()
			delete(b.sockets, one)
		}
	}
	for one := range wanted {
		if b.sockets[one] != nil {
			continue
		}
		listener, err := net.Listen("tcp", one.at.String())
		if err != nil {
			log.Printf("%s: %v", one.at, err)
			continue
		}
		b.sockets[one] = listener
		go b.accept(listener, one)
	}
}

// address returns the address of a Service, and writes it into its status.
func (b *balancer) address(service *corev1.Service) netip.Addr {
	uid := string(service.UID)
	address, known := b.addresses[uid]
	if !known {
		bytes := netip.MustParseAddr(*first).As4()
		binary.BigEndian.PutUint32(bytes[:], binary.BigEndian.Uint32(bytes[:])+uint32(len(b.addresses)))
		address = netip.AddrFrom4(bytes)
		b.addresses[uid] = address
	}
	ingress := service.Status.LoadBalancer.Ingress
	if len(ingress) == 1 && ingress[0].IP == address.String() {
		return address
	}
	changed := service.DeepCopy()
	changed.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: address.String()}}
	_, err := b.client.CoreV1().Services(service.Namespace).UpdateStatus(context.Background(), changed, metav1.UpdateOptions{})
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		log.Printf("%s/%s: %v", service.Namespace, service.Name, err)
	}
	return address
}

func (b *balancer) accept(listener net.Listener, from socket) {
	for {
		connection, err := listener.Accept()
		if err != nil {
			return // it was closed
		}
		go b.relay(connection.(*net.TCPConn), from)
	}
}

// relay connects a client with an endpoint.
func (b *balancer) relay(client *net.TCPConn, from socket) {
	defer client.Close()
	endpoints := b.endpoints(from)
	if len(endpoints) == 0 {
		return
	}
	to := endpoints[b.turn.Add(1)%uint64(len(endpoints))]
	connection, err := net.DialTimeout("tcp", to, 2*time.Second)
	if err != nil {
		log.Printf("%s/%s: %v", from.namespace, from.service, err)
		return
	}
	endpoint := connection.(*net.TCPConn)
	defer endpoint.Close()
	var both sync.WaitGroup
	for _, way := range [][2]*net.TCPConn{{client, endpoint}, {endpoint, client}} {
		both.Add(1)
		go func() {
			defer both.Done()
			_, _ = io.Copy(way[1], way[0])
			_ = way[1].CloseWrite()
		}()
	}
	both.Wait()
}

// endpoints returns the ready endpoints of a Service's port.
func (b *balancer) endpoints(of socket) []string {
	slices, err := b.slices.EndpointSlices(of.namespace).List(labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: of.service}))
	must(err)
	var out []string
	for _, slice := range slices {
		for _, port := range slice.Ports {
			if port.Port == nil || port.Name != nil && *port.Name != of.port {
				continue
			}
			for _, endpoint := range slice.Endpoints {
				if endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready {
					out = append(out, net.JoinHostPort(endpoint.Addresses[0], strconv.Itoa(int(*port.Port))))
				}
			}
		}
	}
	return out
}
