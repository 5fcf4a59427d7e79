/* One flow of ns-3's BBR (version 1) over one link: prints goodput, and, every STEP seconds, rate, bytes in flight and
 * the last RTT.
 *
 * bbr_ns3 CAPACITY [bit/s] RTT [s] BUFFER [packets] DURATION [s] STEP [s]
 */
#include <cstdlib>
#include <iostream>

#include <ns3/applications-module.h>
#include <ns3/core-module.h>
#include <ns3/internet-module.h>
#include <ns3/network-module.h>
#include <ns3/point-to-point-module.h>
#include <ns3/traffic-control-module.h>

using namespace ns3;

static const uint32_t DATA = 1448; /* of a packet of 1500 bytes, with the headers of IP and TCP and its timestamps */
static uint32_t in_flight = 0;
static double last_rtt = 0.0;
static uint64_t received = 0;

static void
sample(const PacketSink *sink, QueueDisc *queue, double step)
{
    uint64_t now = sink->GetTotalRx();
    std::cout << Simulator::Now().GetSeconds() << " " << 8.0 * double(now - received) / step << " " << in_flight << " "
              << last_rtt << " " << queue->GetNBytes() << " " << queue->GetStats().nTotalDroppedPackets << "\n";
    received = now;
    Simulator::Schedule(Seconds(step), &sample, sink, queue, step);
}

static void
on_in_flight(uint32_t before, uint32_t now)
{
    in_flight = now;
}

static void
on_rtt(Time before, Time now)
{
    last_rtt = now.GetSeconds();
}

static void
trace(Ptr<Application> source)
{
    Ptr<TcpSocketBase> socket = DynamicCast<TcpSocketBase>(DynamicCast<BulkSendApplication>(source)->GetSocket());
    socket->TraceConnectWithoutContext("BytesInFlight", MakeCallback(&on_in_flight));
    socket->TraceConnectWithoutContext("RTT", MakeCallback(&on_rtt));
}

int
main(int argc, char **argv)
{
    if (argc != 6) {
        std::cerr << "usage: bbr_ns3 CAPACITY RTT BUFFER DURATION STEP\n";
        return 1;
    }
    const DataRate capacity{uint64_t(std::atof(argv[1]))};
    const Time delay = Seconds(std::atof(argv[2]) / 4.0);
    const double duration = std::atof(argv[4]), step = std::atof(argv[5]);

    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TcpBbr::GetTypeId()));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(DATA));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(1));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(10000 * DATA));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(10000 * DATA));

    NodeContainer nodes;
    nodes.Create(3);
    PointToPointHelper access, bottleneck;
    access.SetDeviceAttribute("DataRate", DataRateValue(DataRate("10Gbps")));
    access.SetChannelAttribute("Delay", TimeValue(delay));
    bottleneck.SetDeviceAttribute("DataRate", DataRateValue(capacity));
    bottleneck.SetChannelAttribute("Delay", TimeValue(delay));
    bottleneck.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("1p"));
    NetDeviceContainer first = access.Install(nodes.Get(0), nodes.Get(1));
    NetDeviceContainer second = bottleneck.Install(nodes.Get(1), nodes.Get(2));
    InternetStackHelper stack;
    stack.Install(nodes);
    TrafficControlHelper control;
    control.SetRootQueueDisc("ns3::FifoQueueDisc", "MaxSize", StringValue(std::string(argv[3]) + "p"));
    QueueDiscContainer disciplines = control.Install(second.Get(0));
    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.0");
    addresses.Assign(first);
    addresses.NewNetwork();
    Ipv4InterfaceContainer ends = addresses.Assign(second);
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    BulkSendHelper source("ns3::TcpSocketFactory", InetSocketAddress(ends.GetAddress(1), 5000));
    PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), 5000));
    ApplicationContainer senders = source.Install(nodes.Get(0)), sinks = sink.Install(nodes.Get(2));
    senders.Start(Seconds(0.0));
    Simulator::Schedule(Seconds(0.001), &trace, senders.Get(0));
    const PacketSink *counter = PeekPointer(DynamicCast<PacketSink>(sinks.Get(0)));
    Simulator::Schedule(Seconds(step), &sample, counter, PeekPointer(disciplines.Get(0)), step);
    Simulator::Stop(Seconds(duration));
    Simulator::Run();
    return 0;
}
